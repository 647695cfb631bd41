//! The driver on a real adapter: memory there and back, kernels in order, what cannot be.

#![cfg(feature = "webgpu")]

mod doubles;
mod first;

use doubles::{doubles, slice};
use elinvar_core::ErrorKind;
use elinvar_driver::{Driver, PendingCopy, WebGpu};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::emit::wgsl::Target;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Elem};
use first::first;

#[test]
fn work_is_done_in_order() {
    let Some(d) = first::<WebGpu>() else { return };
    println!("{:?}\n{:?}", d.info(), d.target());
    doubles(&d);
}

/// y[i] += x[i], of words.
fn add(d: &WebGpu) -> <WebGpu as Driver>::Module {
    let k = Builder::new("add", [4, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::ReadWrite));
    let i = k.global_id(0);
    k.store(y, i, k.load(x, i, 1) + k.load(y, i, 1));
    d.compile(&k.finish()).unwrap()
}

/// Two parts of a buffer, and one part twice; writes and copies between launches.
#[test]
fn parts_of_one_buffer_are_read_and_written() {
    let Some(d) = first::<WebGpu>() else { return };
    let module = add(&d);
    let memory = d.allocate(1024).unwrap();
    let part = |i: u64| slice::<WebGpu>(&memory, 256 * i, 16);
    let bytes = |v: [u32; 4]| v.map(u32::to_le_bytes).concat();
    let launch = Launch { groups: [1; 3], params: Vec::new() };
    d.write(part(0), &bytes([1, 2, 3, 4])).unwrap();
    d.write(part(1), &bytes([10, 20, 30, 40])).unwrap();
    d.launch(&module, &[part(0), part(1)], &launch, None).unwrap();
    // Both what is read and what is written: y + y.
    d.launch(&module, &[part(1), part(1)], &launch, None).unwrap();
    d.copy(part(1), part(2)).unwrap();
    // After the launches, which are only recorded.
    d.write(part(1), &bytes([0; 4])).unwrap();
    d.launch(&module, &[part(2), part(1)], &launch, None).unwrap();
    let read = |i: u64| {
        let mut got = [0; 16];
        d.read(part(i), &mut got).unwrap();
        got.to_vec()
    };
    assert_eq!(
        [read(0), read(1), read(2)],
        [bytes([1, 2, 3, 4]), bytes([22, 44, 66, 88]), bytes([22, 44, 66, 88])]
    );
}

/// Bytes that are no whole words, at any place.
#[test]
fn any_bytes_are_read() {
    let Some(d) = first::<WebGpu>() else { return };
    let memory = d.allocate(64).unwrap();
    let all: Vec<u8> = (0..64).collect();
    d.write(slice::<WebGpu>(&memory, 0, 64), &all).unwrap();
    for (at, len) in [(0, 0), (0, 1), (3, 1), (3, 2), (5, 7), (63, 1), (1, 63)] {
        let mut got = vec![0; len];
        d.read(slice::<WebGpu>(&memory, at as u64, len as u64), &mut got).unwrap();
        assert_eq!(got, all[at..at + len]);
        let from = slice::<WebGpu>(&memory, at as u64, len as u64);
        let under_way = d.download(from, vec![0xff; 64]).unwrap();
        let got = under_way.wait().unwrap();
        assert_eq!(got[..len], all[at..at + len]);
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let Some(d) = first::<WebGpu>() else { return };
    assert_eq!(WebGpu::open(99).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let too_large = d.allocate(d.info().largest + 1).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::OutOfMemory, "{too_large}");
    let k = Builder::new("wide", [2048, 1, 1]);
    k.store(k.buffer("y", Elem::U32, Access::Write), k.u32(0), k.u32(0));
    if d.info().invocations < 2048 {
        let e = d.compile(&k.finish()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("2048 invocations"), "{e}");
    }
    let k = Builder::new("double", [1, 1, 1]);
    let y = k.buffer("y", Elem::F64, Access::ReadWrite);
    k.store(y, k.u32(0), k.load(y, k.u32(0), 1) * 2);
    let e = d.compile(&k.finish()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.message().contains("64-bit floats"), "{e}");
    // A binding that is out of its buffer is seen when it is made, and the device goes on.
    let memory = d.allocate(64).unwrap();
    let beyond = slice::<WebGpu>(&memory, 1 << 20, 16);
    let launch = Launch { groups: [1; 3], params: Vec::new() };
    let other = d.allocate(64).unwrap();
    let made = d.launch(&add(&d), &[slice::<WebGpu>(&other, 0, 16), beyond], &launch, None);
    let e = made.and_then(|()| d.wait()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    doubles(&d);
}

/// An adapter with lower limits: of each a sentence, and other kernels go on.
#[test]
fn a_limit_that_is_too_low_is_told() {
    let Some(d) = first::<WebGpu>() else { return };
    let k = Builder::new("turn", [32, 1, 2]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::Write));
    let (shared, i) = (k.shared("s", Elem::U32, 64), k.local_id(2) * 32 + k.local_id(0));
    k.store(shared, i, k.load(x, i, 1));
    k.barrier();
    k.store(y, i, k.load(shared, k.u32(63) - i, 1));
    let k = k.finish();
    d.compile(&k).unwrap();
    let full = *d.target();
    let mut d = d;
    for (less, says) in [
        (Target { buffers: 1, ..full }, "2 storage buffers, and the device has 1 at most"),
        (Target { shared: 128, ..full }, "256 bytes of shared memory, and the device has 128 at most"),
        (Target { invocations: 32, ..full }, "workgroups of 64 invocations, and the device has 32 at most"),
        (
            Target { group: [64, 64, 1], ..full },
            "workgroups of 32 x 1 x 2, and the device has 64 x 64 x 1 at most",
        ),
    ] {
        d = d.with_target(less);
        let e = d.compile(&k).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
        assert!(e.message().contains(says), "{e}");
    }
    doubles(&d.with_target(full));
}

/// All memory that there is: an error, and after some was dropped the device goes on.
#[test]
fn memory_that_is_not_there_is_an_error() {
    let Some(d) = first::<WebGpu>() else { return };
    let mut all = Vec::new();
    let e = loop {
        match d.allocate(d.info().largest) {
            // So much that the machine has is not to be asked for.
            Ok(_) if all.len() as u64 * d.info().largest > 4 << 30 => {
                return println!("skipped: much memory");
            }
            Ok(memory) => all.push(memory),
            Err(e) => break e,
        }
    };
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    drop(all);
    doubles(&d);
}

#[test]
fn a_lost_device_says_so() {
    let Some(d) = first::<WebGpu>() else { return };
    d.lose();
    let e = d.allocate(64).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::DeviceLost, "{e}");
    assert_eq!(d.wait().unwrap_err().kind(), ErrorKind::DeviceLost);
}
