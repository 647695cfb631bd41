//! Loops of more iterations than some devices take: the reference's bits.

use elinvar_conformance::Part;
use elinvar_conformance::long::{LongCase, differences};
use elinvar_core::ErrorKind;
use elinvar_driver::{Driver, Vulkan};
use elinvar_gpu::{Gpu, GpuDevice};

fn check<D: Driver>(d: &GpuDevice<D>, n: usize, only: impl Fn(usize, &LongCase) -> bool) {
    let all = differences::<Gpu<D>>(d, n, only).unwrap();
    assert!(all.is_empty(), "{} differences:\n{}", all.len(), all.join("\n"));
}

#[test]
fn vulkans_long_loops_have_the_references_bits() {
    let Some(d) = super::vulkan() else { return };
    println!("{:?}", d.info().unwrap().max_loop_iterations);
    let part = Part::of_tests();
    // The second of several times the passes that it takes.
    for n in [70_000, 300_000] {
        check(&d, n, |place, _| part.has(place));
    }
}

/// Loops are cut more often than the device asks for.
#[test]
fn vulkans_cut_loops_have_the_references_bits() {
    match Vulkan::open(0) {
        Ok(d) => {
            check(&GpuDevice::new(d.with_loop_limit(1_300), 0), 3_000, |place, _| Part::of_tests().has(place))
        }
        Err(e) if e.kind() == ErrorKind::DriverMissing => println!("skipped: {e}"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn cudas_long_loops_have_the_references_bits() {
    check(&super::cuda(), 70_000, |_, c| !c.wide);
}

/// Every loop is cut.
#[test]
fn interpreted_short_loops_have_the_references_bits() {
    let attention = |_, c: &LongCase| c.op == "scaled_dot_product_attention";
    check(&super::interp_with_loop_limit(400), 3_000, |place, c| !attention(place, c));
    // A chunk of eight blocks is the least that is taken alone.
    check(&super::interp_with_loop_limit(1_300), 3_000, attention);
}
