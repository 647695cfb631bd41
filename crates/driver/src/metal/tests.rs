//! The driver over a stand-in for Metal: order, hazards, copies, faults. What it cannot show is
//! whether Metal itself does what its documentation says.

#[path = "../../tests/doubles/mod.rs"]
mod doubles;

use super::sys::emulated::{Config, configure};
use super::{Metal, Traits};
use crate::{Driver, PendingCopy, Slice};
use doubles::{doubles, slice};
use elinvar_core::philox::Stream;
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::builder::Builder;
use elinvar_kernel::emit::msl::MslTarget;
use elinvar_kernel::interp::{Flushes, Launch};
use elinvar_kernel::ir::{Access, Elem};

fn with(change: impl FnOnce(&mut Config)) -> Result<Metal> {
    let mut config = Config::default();
    change(&mut config);
    configure(config);
    Metal::open(0)
}

fn open() -> Metal {
    with(|_| {}).unwrap()
}

/// y[i] = x[i] + 2 y[i], of words.
fn add() -> Kernel {
    let k = Builder::new("add", [4, 1, 1]);
    let (x, y) = (k.buffer("x", Elem::U32, Access::Read), k.buffer("y", Elem::U32, Access::ReadWrite));
    let i = k.global_id(0);
    k.store(y, i, k.load(x, i, 1) + k.load(y, i, 1) * 2);
    k.finish()
}

fn launch(groups: u32) -> Launch {
    Launch { groups: [groups, 1, 1], params: Vec::new() }
}

#[test]
fn work_is_done_in_order() {
    doubles(&open());
}

/// Calls of all kinds on places of three pieces of memory, some of which overlap, against the same
/// on the host's memory: with work that begins as late as may be, and launches that run in the
/// opposite order where there is no barrier.
#[test]
fn any_calls_have_the_hosts_bytes() {
    const BYTES: usize = 512;
    let d = open();
    let module = d.compile(&add()).unwrap();
    for seed in 0..40 {
        let mut memory: Vec<_> = (0..3).map(|_| d.allocate(BYTES as u64).unwrap()).collect();
        let mut want = vec![vec![0u8; BYTES]; 3];
        for m in &memory {
            d.write(slice::<Metal>(m, 0, BYTES as u64), &[0; BYTES]).unwrap();
        }
        let (stream, mut at) = (Stream { seed, stream: 3 }, 0);
        let mut next = |below: usize| {
            at += 1;
            stream.word(at) as usize % below
        };
        let mut transfers = Vec::new();
        for step in 0..250u32 {
            let [a, b] = [next(3), next(3)];
            // Of launches, whole vectors; of copies, any bytes, but mostly words.
            let [mut from, mut to] = [next(BYTES / 16) * 16, next(BYTES / 16) * 16];
            let mut len = (1 + next(6)) * 16;
            let kind = next(7);
            if kind != 0 && next(4) == 0 {
                (from, to, len) = (from + next(8), to + next(8), len - next(13));
            }
            len = len.min(BYTES - from).min(BYTES - to);
            // The last word of a copy may take bytes behind it along.
            let tail = |to: usize, len: usize| (to + len).next_multiple_of(4).min(BYTES) - to - len;
            let bytes: Vec<u8> = (0..len).map(|i| (i as u32 * 7 + step) as u8).collect();
            let place = |m: usize, at: usize, len: usize| slice::<Metal>(&memory[m], at as u64, len as u64);
            match kind {
                0 | 1 => {
                    let (from, to, len) = (from / 16 * 16, to / 16 * 16, len / 16 * 16);
                    if len == 0 {
                        continue;
                    }
                    let overlap = a == b && from != to && from < to + len && to < from + len;
                    if overlap {
                        continue;
                    }
                    d.launch(
                        &module,
                        &[place(a, from, len), place(b, to, len)],
                        &launch(len as u32 / 16),
                        None,
                    )
                    .unwrap();
                    for i in (0..len).step_by(4) {
                        let word =
                            |v: &[u8], at: usize| u32::from_le_bytes(v[at..at + 4].try_into().unwrap());
                        let sum =
                            word(&want[a], from + i).wrapping_add(word(&want[b], to + i).wrapping_mul(2));
                        want[b][to + i..to + i + 4].copy_from_slice(&sum.to_le_bytes());
                    }
                }
                2 => {
                    // Bytes behind the last word's are taken along: words alone, so that it is told
                    // what they are.
                    let len = if to % 4 == 0 { len - (to + len) % 4 } else { len };
                    d.write(place(b, to, len), &bytes[..len]).unwrap();
                    want[b][to..to + len].copy_from_slice(&bytes[..len]);
                }
                3 => {
                    let len = if from % 4 == 0 && to % 4 == 0 { len / 4 * 4 } else { len };
                    d.copy(place(a, from, len), place(b, to, len)).unwrap();
                    let copied = want[a][from..from + len].to_vec();
                    want[b][to..to + len].copy_from_slice(&copied);
                }
                4 => {
                    let len =
                        if to % 4 == 0 { len - tail(to, len).min(len) / 4 * 4 - (to + len) % 4 } else { len };
                    let mut pinned = d.pin(BYTES).unwrap();
                    pinned.as_mut()[..len].copy_from_slice(&bytes[..len]);
                    let transfer = d.upload(pinned, place(b, to, len)).unwrap();
                    want[b][to..to + len].copy_from_slice(&bytes[..len]);
                    transfers.push((transfer, bytes[..len].to_vec()));
                }
                5 => {
                    let mut pinned = d.pin(BYTES).unwrap();
                    pinned.as_mut().fill(0xee);
                    let transfer = d.download(place(a, from, len), pinned).unwrap();
                    let mut all = want[a][from..from + len].to_vec();
                    all.resize(BYTES, 0xee);
                    transfers.push((transfer, all));
                }
                _ => {
                    let mut got = vec![0; len];
                    d.read(place(a, from, len), &mut got).unwrap();
                    assert_eq!(got, want[a][from..from + len], "seed {seed}, step {step}");
                }
            }
            if next(20) == 0 {
                // What is dropped is still used by what was given before.
                memory[a] = d.allocate(BYTES as u64).unwrap();
                d.write(slice::<Metal>(&memory[a], 0, BYTES as u64), &[step as u8; BYTES]).unwrap();
                want[a] = vec![step as u8; BYTES];
            }
            if next(5) == 0 && !transfers.is_empty() {
                let (transfer, want) = transfers.swap_remove(next(transfers.len()));
                let pinned = transfer.wait().unwrap();
                assert_eq!(pinned.as_ref()[..want.len()], want, "seed {seed}, step {step}");
            }
        }
        for (m, want) in memory.iter().zip(&want) {
            let mut got = vec![0; BYTES];
            d.read(slice::<Metal>(m, 0, BYTES as u64), &mut got).unwrap();
            assert_eq!(&got, want, "seed {seed}");
        }
    }
}

/// What the host writes is in place where the device does nothing with the memory, and behind the
/// work that does: large numbers of launches, too.
#[test]
fn writes_are_behind_the_work_before() {
    let d = open();
    let module = d.compile(&add()).unwrap();
    let [a, b] = [0, 1].map(|_| d.allocate(1 << 21).unwrap());
    let part = |i: u64| slice::<Metal>(&a, 16 * i, 16);
    let bytes = |v: u32| [v; 4].map(u32::to_le_bytes).concat();
    let sum = slice::<Metal>(&b, 0, 16);
    d.write(sum, &bytes(0)).unwrap();
    let mut want = 0u32;
    for i in 0..200u32 {
        d.write(part(0), &bytes(i)).unwrap();
        d.launch(&module, &[part(0), sum], &launch(1), None).unwrap();
        want = want.wrapping_mul(2).wrapping_add(i);
    }
    // More than a chunk, behind all of them.
    let large = vec![7; 1 << 21];
    d.write(slice::<Metal>(&a, 0, 1 << 21), &large).unwrap();
    let mut got = vec![0; 16];
    d.read(sum, &mut got).unwrap();
    assert_eq!(got, bytes(want));
    let mut got = vec![0; 1 << 21];
    d.read(slice::<Metal>(&a, 0, 1 << 21), &mut got).unwrap();
    assert!(got == large);
}

/// Numbers that are too many for parameters, and launches of nothing.
#[test]
fn numbers_have_a_buffer() {
    let d = open();
    let k = Builder::new("numbers", [4, 1, 1]);
    let (y, n) = (k.buffer("y", Elem::U32, Access::Write), k.buffer("n", Elem::U32, Access::Read));
    let i = k.global_id(0);
    k.store(y, i, k.load(n, i, 1));
    let module = d.compile(&k.finish()).unwrap();
    let memory = d.allocate(16).unwrap();
    let y = slice::<Metal>(&memory, 0, 16);
    let numbers = |v: u32| [v, v + 1, v + 2, v + 3].map(u32::to_le_bytes).concat();
    for v in 0..100 {
        d.launch(&module, &[y], &launch(1), Some(&numbers(v))).unwrap();
    }
    d.launch(&module, &[y], &launch(0), Some(&numbers(500))).unwrap();
    let mut got = [0; 16];
    d.read(y, &mut got).unwrap();
    assert_eq!(got[..], numbers(99));
    let other = Launch { groups: [1; 3], params: vec![1u32.into()] };
    let e = d.launch(&module, &[y], &other, Some(&numbers(0))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn events_and_marks_are_places_in_the_queue() {
    let d = open();
    let (none, module) = (d.mark().unwrap(), d.compile(&add()).unwrap());
    let memory = d.allocate(32).unwrap();
    let [x, y] = [0, 16].map(|at| slice::<Metal>(&memory, at, 16));
    let run = |n| (0..n).for_each(|_| d.launch(&module, &[x, y], &launch(1), None).unwrap());
    run(3);
    let event = d.record().unwrap();
    run(70);
    let later = d.record().unwrap();
    assert!(!d.reached(&later).unwrap());
    d.wait_for(&event).unwrap();
    assert!(d.reached(&event).unwrap() && !d.reached(&later).unwrap());
    let mark = d.mark().unwrap();
    d.wait().unwrap();
    assert!(d.reached(&later).unwrap());
    assert!(d.between(&none, &mark).unwrap().as_secs_f64() > 0.07);
}

/// Memory that is dropped is given back when the work that used it is done, which is waited for
/// where there is no room.
#[test]
fn memory_ends() {
    let d = with(|c| c.room = 5 << 20).unwrap();
    let module = d.compile(&add()).unwrap();
    for _ in 0..20 {
        let memory = d.allocate(2 << 20).unwrap();
        let [x, y] = [0, 16].map(|at| slice::<Metal>(&memory, at, 16));
        d.launch(&module, &[x, y], &launch(1), None).unwrap();
    }
    let held = d.allocate(3 << 20).unwrap();
    let e = d.allocate(3 << 20).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    drop(held);
    assert!(d.pin(3 << 20).is_ok());
    let e = d.allocate(d.info().largest + 1).unwrap_err();
    assert!(e.kind() == ErrorKind::OutOfMemory && e.message().contains("at most"), "{e}");
}

/// What a command buffer ends with is said by the next wait, and by everything after it.
#[test]
fn faults_are_said() {
    for kind in [ErrorKind::OutOfMemory, ErrorKind::DeviceLost] {
        let mut fails = None;
        let d = with(|c| fails = Some(c.fails.clone())).unwrap();
        let module = d.compile(&add()).unwrap();
        let memory = d.allocate(32).unwrap();
        let [x, y] = [0, 16].map(|at| slice::<Metal>(&memory, at, 16));
        d.launch(&module, &[x, y], &launch(1), None).unwrap();
        *fails.unwrap().lock().unwrap() = Some(Error::new(kind, "metal: it ended"));
        let said = |r: Result<()>| assert_eq!(r.unwrap_err().kind(), kind);
        said(d.read(y, &mut [0; 16]));
        said(d.wait());
        said(d.launch(&module, &[x, y], &launch(1), None));
        said(d.write(y, &[0; 16]));
        said(d.upload(d.pin(16).unwrap(), y).map(drop));
        said(d.mark().map(drop));
    }
}

#[test]
fn pinned_memory_is_a_devices_own() {
    let [d, other] = [open(), open()];
    let memory = d.allocate(16).unwrap();
    let e = d.upload(other.pin(16).unwrap(), slice::<Metal>(&memory, 0, 16)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    // Dropped while it is under way.
    drop(d.download(Slice { memory: &memory, offset: 0, len: 16 }, d.pin(16).unwrap()).unwrap());
}

/// The probe finds what a device flushes, and kernels are emitted for it.
#[test]
fn arithmetic_is_probed() {
    assert_eq!(*open().target(), MslTarget { language: 310, ..MslTarget::EXACT });
    let all = Flushes { sums: true, fma: true, quotients: true, ..Flushes::default() };
    let d = with(|c| c.flushes = all).unwrap();
    let found = d.target();
    assert!(!found.adds_subnormals && !found.fuses_subnormals && !found.division, "{found:?}");
    assert!(found.halves && !found.contracts && d.info().short, "{found:?}");
    let k = Builder::new("sum", [1, 1, 1]);
    let y = k.buffer("y", Elem::F32, Access::ReadWrite);
    let x = k.load(y, k.u32(0), 1);
    k.store(y, k.u32(0), x + x);
    assert!(d.msl(&k.finish()).unwrap().contains("exact_add("));
}

fn traits(change: impl FnOnce(&mut Traits)) -> Result<Metal> {
    with(|c| change(&mut c.traits[0]))
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |r: Result<Metal>, what: &str| {
        let e = r.unwrap_err();
        assert!(e.kind() == ErrorKind::Unsupported && e.message().contains(what), "{e}");
    };
    refused(traits(|t| t.unified = false), "a card with memory of its own");
    refused(traits(|t| t.language = 240), "macOS 13");
    assert_eq!(with(|c| c.traits.clear()).unwrap_err().kind(), ErrorKind::DriverMissing);
    let d = open();
    assert_eq!(Metal::open(1).unwrap_err().kind(), ErrorKind::UnknownDevice);
    let e = d.compile(&Builder::new("many_registers", [128, 1, 1]).finish()).unwrap_err();
    assert!(e.message().contains("128 threads, and the device has registers for 64"), "{e}");
    let k = Builder::new("double", [1, 1, 1]);
    let y = k.buffer("y", Elem::F64, Access::ReadWrite);
    k.store(y, k.u32(0), k.load(y, k.u32(0), 1) * 2);
    assert!(d.compile(&k.finish()).unwrap_err().message().contains("64-bit floats"));
    // Without SIMD-groups of 32 there are no matrix units, and bf16 came later.
    let shapes = |t: fn(&mut Traits)| traits(t).unwrap().info().mma_shapes.len();
    assert_eq!([shapes(|t| t.simd_groups = false), shapes(|t| t.language = 300), shapes(|_| {})], [0, 2, 3]);
    refused(with(|c| c.lanes = 16), "SIMD-groups of 16");
}
