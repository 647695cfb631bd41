//! Loops of more iterations than some devices take: the reference's bits.

use elinvar_conformance::Part;
use elinvar_conformance::long::{LongCase, differences};
use elinvar_core::ErrorKind;
use elinvar_devices::{Any, Device};
use elinvar_driver::{Driver, Interp, Vulkan};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_ops::Backend;

/// Drivers that `Any` has are tested by way of it: all these ops are compiled for it anyway.
fn check<B: Backend>(d: &B::Device, n: usize, only: impl Fn(usize, &LongCase) -> bool) {
    let all = differences::<B>(d, n, only).unwrap();
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}

#[test]
fn vulkans_long_loops_have_the_references_bits() {
    let Some(d) = super::vulkan() else { return };
    println!("{:?}", d.info().unwrap().max_loop_iterations);
    let d = Device::Vulkan(d);
    let part = Part::of_tests();
    // The second of several times the passes that it takes.
    for n in [70_000, 300_000] {
        check::<Any>(&d, n, |place, _| part.has(place));
    }
}

/// Loops are cut more often than the device asks for.
#[test]
fn vulkans_cut_loops_have_the_references_bits() {
    match Vulkan::open(0) {
        Ok(d) => {
            let d = Device::Vulkan(GpuDevice::new(d.with_loop_limit(1_300), 0));
            check::<Any>(&d, 3_000, |place, _| Part::of_tests().has(place));
        }
        Err(e) if e.kind() == ErrorKind::DriverMissing => println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn cudas_long_loops_have_the_references_bits() {
    check::<Any>(&Device::Cuda(super::cuda()), 70_000, |_, c| !c.wide);
}

/// Every loop is cut.
#[test]
fn interpreted_short_loops_have_the_references_bits() {
    let attention = |_, c: &LongCase| c.op == "scaled_dot_product_attention";
    check::<Gpu<Interp>>(&super::interp_with_loop_limit(400), 3_000, |place, c| !attention(place, c));
    // A chunk of eight blocks is the least that is taken alone.
    check::<Gpu<Interp>>(&super::interp_with_loop_limit(1_300), 3_000, attention);
}
