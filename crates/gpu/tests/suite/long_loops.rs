//! Loops of more iterations than some devices take: the reference's bits.

use elinvar_conformance::long::{LongCase, differences};
use elinvar_core::ErrorKind;
use elinvar_driver::{Driver, Vulkan};
use elinvar_gpu::{Gpu, GpuDevice};

fn check<D: Driver>(d: &GpuDevice<D>, n: usize, only: impl Fn(&LongCase) -> bool) {
    let all = differences::<Gpu<D>>(d, n, only).unwrap();
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}

#[test]
fn vulkans_long_loops_have_the_references_bits() {
    let Some(d) = super::vulkan() else { return };
    println!("{:?}", d.info().unwrap().max_loop_iterations);
    check(&d, 70_000, |_| true);
    // Of several times the passes that it takes, what few invocations do.
    check(&d, 300_000, |c| !c.wide);
}

/// Loops are cut more often than the device asks for.
#[test]
fn vulkans_cut_loops_have_the_references_bits() {
    match Vulkan::open(0) {
        Ok(d) => check(&GpuDevice::new(d.with_loop_limit(1_300), 0), 3_000, |_| true),
        Err(e) if e.kind() == ErrorKind::DriverMissing => println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn cudas_long_loops_have_the_references_bits() {
    check(&super::cuda(), 70_000, |c| !c.wide);
}

/// Every loop is cut.
#[test]
fn interpreted_short_loops_have_the_references_bits() {
    let attention = |c: &LongCase| c.op == "scaled_dot_product_attention";
    check(&super::interp_with_loop_limit(400), 3_000, |c| !attention(c));
    // A chunk of eight blocks is the least that is taken alone.
    check(&super::interp_with_loop_limit(1_300), 3_000, attention);
}
