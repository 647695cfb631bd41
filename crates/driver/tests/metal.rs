//! The driver on a real device, on Apple's systems: memory there and back, kernels in order, what
//! cannot be. (`metal/tests.rs` has it run everywhere, over a stand-in.)

#![cfg(all(feature = "metal", target_vendor = "apple"))]

mod doubles;
mod first;

use doubles::{doubles, slice};
use elinvar_core::ErrorKind;
use elinvar_driver::{Driver, Metal, PendingCopy};
use elinvar_kernel::builder::Builder;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::{Access, Elem};
use first::first;

#[test]
fn work_is_done_in_order() {
    let Some(d) = first::<Metal>() else { return };
    println!("{:?}\n{:?}", d.info(), d.target());
    doubles(&d);
}

/// Writes, launches and copies in a row, on parts of one buffer; launches that may overlap, and
/// those that may not.
#[test]
fn parts_of_one_buffer_are_read_and_written() {
    let Some(d) = first::<Metal>() else { return };
    let k = Builder::new("add", [4, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::ReadWrite));
    let i = k.global_id(0);
    k.store(y, i, k.load(x, i, 1) + k.load(y, i, 1));
    let module = d.compile(&k.finish()).unwrap();
    let memory = d.allocate(1 << 16).unwrap();
    let part = |i: u64| slice::<Metal>(&memory, 256 * i, 16);
    let bytes = |v: [u32; 4]| v.map(u32::to_le_bytes).concat();
    let launch = Launch { groups: [1; 3], params: Vec::new() };
    let mut want = [[0u32; 4]; 16];
    for (i, part_of) in want.iter_mut().enumerate() {
        *part_of = [0, 1, 2, 3].map(|n| n * 7 + i as u32);
        d.write(part(i as u64), &bytes(*part_of)).unwrap();
    }
    for step in 0..500usize {
        let [from, to] = [step * 7 % 16, step * 11 % 16];
        match step % 5 {
            0 => {
                want[to] = [step as u32; 4];
                d.write(part(to as u64), &bytes(want[to])).unwrap();
            }
            1 if from != to => {
                want[to] = want[from];
                d.copy(part(from as u64), part(to as u64)).unwrap();
            }
            _ => {
                for n in 0..4 {
                    want[to][n] = want[to][n].wrapping_add(want[from][n]);
                }
                d.launch(&module, &[part(from as u64), part(to as u64)], &launch, None).unwrap();
            }
        }
    }
    for (i, want) in want.iter().enumerate() {
        let mut got = [0; 16];
        d.read(part(i as u64), &mut got).unwrap();
        assert_eq!(got[..], bytes(*want), "part {i}");
    }
}

/// Bytes that are no whole words, at any place, read in place and copied.
#[test]
fn any_bytes_are_read() {
    let Some(d) = first::<Metal>() else { return };
    let memory = d.allocate(64).unwrap();
    let all: Vec<u8> = (0..64).collect();
    d.write(slice::<Metal>(&memory, 0, 64), &all).unwrap();
    for (at, len) in [(0, 0), (0, 1), (3, 1), (3, 2), (4, 8), (5, 7), (63, 1), (1, 63)] {
        let from = slice::<Metal>(&memory, at as u64, len as u64);
        let mut got = vec![0; len];
        d.read(from, &mut got).unwrap();
        assert_eq!(got, all[at..at + len]);
        let mut pinned = d.pin(64).unwrap();
        pinned.as_mut().fill(0xff);
        let got = d.download(from, pinned).unwrap().wait().unwrap();
        assert_eq!(got.as_ref()[..len], all[at..at + len]);
        assert!(got.as_ref()[len..].iter().all(|b| *b == 0xff));
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let Some(d) = first::<Metal>() else { return };
    assert_eq!(Metal::open(99).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let too_large = d.allocate(d.info().largest + 1).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::OutOfMemory, "{too_large}");
    let k = Builder::new("double", [1, 1, 1]);
    let y = k.buffer("y", Elem::F64, Access::ReadWrite);
    k.store(y, k.u32(0), k.load(y, k.u32(0), 1) * 2);
    let e = d.compile(&k.finish()).unwrap_err();
    assert!(e.kind() == ErrorKind::Unsupported && e.message().contains("64-bit floats"), "{e}");
    doubles(&d);
}
