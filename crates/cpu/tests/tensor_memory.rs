//! The allocator of the CPU backend: counted, limited, and reused.
//!
//! Its state is the process's, so no other tests are in this file, and these run one at a time.

use elinvar_core::{DType, ErrorKind, Result};
use elinvar_cpu::{Cpu, CpuDevice, Isa};
use elinvar_ops::Backend;
use elinvar_ops::backend::Memory;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Generator, Tensor};
use std::sync::Mutex;

static TURN: Mutex<()> = Mutex::new(());

fn draw<B: Backend>(d: &B::Device, seed: u64, shape: &[usize]) -> Tensor<B> {
    Generator::new(seed).randn(shape.to_vec(), d)
}

fn bits<B: Backend>(x: &Tensor<B>) -> Vec<u32> {
    x.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

#[test]
fn a_limit_is_an_error_and_nothing_is_lost() -> Result<()> {
    let _turn = TURN.lock();
    let d = CpuDevice::new(Isa::best(), 2)?.fuse_from(0);
    let x = draw::<Cpu>(&d, 1, &[1 << 20]);
    let y = x.exp() + 1.0;
    let host = x.to_host()?;
    Cpu::release_memory(&d)?;
    let before = Cpu::memory_stats(&d)?;
    Cpu::set_memory_limit(&d, Some(before.in_use + (1 << 20)))?;
    let put_off = y.block_until_ready().map_err(|e| e.kind());
    let at_once = elinvar_tensor::try_run(|| x.sort(0, false)).map(drop).map_err(|e| e.kind());
    let uploaded = Tensor::<Cpu>::from_host(host, &d).map(drop).map_err(|e| e.kind());
    Cpu::set_memory_limit(&d, None)?;
    assert_eq!((put_off, at_once, uploaded), {
        let no = Err(ErrorKind::OutOfMemory);
        (no, no, no)
    });
    // With more memory, the same tensor is there after all.
    let want = draw::<Reference>(&ReferenceDevice, 1, &[1 << 20]).exp() + 1.0;
    assert_eq!(bits(&y), bits(&want));
    Ok(())
}

/// A thread counts less than this for itself; that of the test before may be just ending, and then
/// it counts for all.
const UNCOUNTED: u64 = 64 << 10;

#[test]
fn memory_is_counted_and_used_again() -> Result<()> {
    let _turn = TURN.lock();
    let d = CpuDevice::new(Isa::best(), 1)?.fuse_from(usize::MAX);
    let before = Cpu::memory_stats(&d)?;
    let x = Tensor::<Cpu>::zeros([1 << 20], DType::F32, &d);
    let with = Cpu::memory_stats(&d)?;
    assert!(with.in_use + UNCOUNTED >= before.in_use + (4 << 20), "{before} {with}");
    assert!(with.peak >= with.in_use);
    drop(x);
    let kept = Cpu::memory_stats(&d)?;
    assert!(kept.in_use < with.in_use && kept.cached >= 4 << 20, "{kept}");
    let x = Tensor::<Cpu>::zeros([1 << 20], DType::F32, &d);
    let again = Cpu::memory_stats(&d)?;
    assert_eq!((again.from_system, again.from_cache), (kept.from_system, kept.from_cache + 1));
    drop(x);
    Cpu::release_memory(&d)?;
    assert_eq!(Cpu::memory_stats(&d)?.cached, 0);
    Ok(())
}

#[test]
fn a_copy_for_products_is_counted_as_long_as_it_is_there() -> Result<()> {
    let _turn = TURN.lock();
    let d = CpuDevice::new(Isa::best(), 2)?;
    let w = draw::<Cpu>(&d, 3, &[512, 512]);
    w.block_until_ready()?;
    let before = Cpu::memory_stats(&d)?.in_use;
    assert!(w.t().prepack());
    let with = Cpu::memory_stats(&d)?.in_use;
    assert!(with + UNCOUNTED >= before + (1 << 20), "{before} {with}");
    assert!(w.t().prepack() && Cpu::memory_stats(&d)?.in_use == with, "once is enough");
    drop(w);
    assert!(Cpu::memory_stats(&d)?.in_use <= with - (2 << 20));
    Ok(())
}

#[test]
fn weights_that_several_products_read_are_packed_unasked() -> Result<()> {
    let _turn = TURN.lock();
    const MIB: u64 = 1 << 20;
    let d = CpuDevice::new(Isa::best(), 2)?.pack_up_to(3 << 19);
    let (x, w) = (draw::<Cpu>(&d, 4, &[3, 512]), draw::<Cpu>(&d, 5, &[512, 512]));
    let want = {
        let d = ReferenceDevice;
        bits(&draw::<Reference>(&d, 4, &[3, 512]).matmul(&draw::<Reference>(&d, 5, &[512, 512]).t()))
    };
    let product = |w: &Tensor<Cpu>| bits(&x.matmul(&w.t()));
    let in_use = || Cpu::memory_stats(&d).map(|stats| stats.in_use);
    let several = |w: &Tensor<Cpu>| (0..10).for_each(|_| assert_eq!(product(w), want));
    let before = in_use()?;
    assert_eq!(product(&w), want);
    assert!(in_use()? < before + MIB / 2, "once is not often");
    several(&w);
    let with = in_use()?;
    assert!((before + MIB..before + 2 * MIB).contains(&with), "{before} {with}");
    // There is no room for a second one, until the first is dropped.
    let other = w.t().contiguous().t().contiguous();
    let before = in_use()?;
    several(&other);
    assert!(in_use()? < before + MIB / 2, "more than was allowed");
    drop(w);
    let third = other.t().contiguous().t().contiguous();
    let before = in_use()?;
    several(&third);
    assert!(in_use()? >= before + MIB);
    // Never with a limit.
    drop((other, third));
    let w = draw::<Cpu>(&d, 5, &[512, 512]);
    Cpu::set_memory_limit(&d, Some(1 << 40))?;
    let before = in_use()?;
    several(&w);
    let after = in_use()?;
    Cpu::set_memory_limit(&d, None)?;
    assert!(after < before + MIB / 2);
    Ok(())
}

#[test]
fn weights_that_two_products_of_many_rows_read_are_packed_unasked() -> Result<()> {
    let _turn = TURN.lock();
    const SIZE: u64 = 4 * 512 * 512;
    // Of few rows eight, of many two; of very many rows packing is nothing beside the product.
    for (rows, products, packed) in
        [(192, 2, false), (193, 1, false), (193, 2, true), (2048, 2, true), (2049, 4, false)]
    {
        let d = CpuDevice::new(Isa::best(), 2)?;
        let (x, w) = (draw::<Cpu>(&d, 4, &[rows, 512]), draw::<Cpu>(&d, 5, &[512, 512]));
        let first = bits(&x.matmul(&w.t()));
        let before = Cpu::memory_stats(&d)?.in_use;
        (1..products).for_each(|_| assert_eq!(bits(&x.matmul(&w.t())), first));
        let after = Cpu::memory_stats(&d)?.in_use;
        assert_eq!(after >= before + SIZE, packed, "{products} of {rows} rows: {before} {after}");
    }
    Ok(())
}

#[test]
fn weights_that_several_convolutions_read_are_packed_unasked() -> Result<()> {
    let _turn = TURN.lock();
    const SIZE: u64 = 4 * 64 * 64 * 9;
    for isa in Isa::all() {
        let d = CpuDevice::new(isa, 2)?;
        let (x, w) = (draw::<Cpu>(&d, 6, &[1, 64, 14, 14]), draw::<Cpu>(&d, 7, &[64, 64, 3, 3]));
        let want = {
            let d = ReferenceDevice;
            let (x, w) =
                (draw::<Reference>(&d, 6, &[1, 64, 14, 14]), draw::<Reference>(&d, 7, &[64, 64, 3, 3]));
            bits(&x.conv2d(&w, None, 1, 1, 1, 1))
        };
        let conv = |w: &Tensor<Cpu>| bits(&x.conv2d(w, None, 1, 1, 1, 1));
        assert_eq!(conv(&w), want);
        let before = Cpu::memory_stats(&d)?.in_use;
        (0..10).for_each(|_| assert_eq!(conv(&w), want));
        let with = Cpu::memory_stats(&d)?.in_use;
        // Without registers tiles are too low: weights are no panels there.
        let panels = isa.to_string() != "plain";
        assert_eq!(with + UNCOUNTED >= before + SIZE, panels, "{isa:?}: {before} {with}");
    }
    Ok(())
}
