//! Every kind of work on random calls: the reference's bits.

use elinvar_conformance::Part;
use elinvar_conformance::equal::{Plan, equal};
use elinvar_conformance::twist::Work;
use elinvar_devices::{Any, Device};
use elinvar_driver::Interp;
use elinvar_gpu::Gpu;
use elinvar_ops::Backend;

/// Drivers that `Any` has are tested by way of it: all these calls are compiled once for them.
fn check<B: Backend>(d: &B::Device, plan: &Plan) {
    let differences = equal::<B>(d, plan);
    let shown: Vec<&str> = differences.iter().take(20).map(|x| x.what.as_str()).collect();
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

#[test]
fn interpreted_work_has_the_references_bits() {
    check::<Gpu<Interp>>(&super::interp(), &Plan { rounds: 0..4, largest: 300, ..Plan::default() });
}

/// What takes more passes than the device allows is cut into several launches.
#[test]
fn cut_work_has_the_references_bits() {
    // The second finds loops whose passes have no bound.
    for (passes, largest) in [(400, 2000), (1 << 20, 3000)] {
        check::<Gpu<Interp>>(
            &super::interp_with_loop_limit(passes),
            &Plan { rounds: 0..4, largest, ..Plan::default() },
        );
    }
}

#[test]
fn cudas_work_has_the_references_bits() {
    let d = Device::Cuda(super::cuda());
    check::<Any>(&d, &Plan { rounds: 0..12, largest: 3000, ..Plan::default() });
    let works = vec![Work::Fold, Work::Rows, Work::Contract, Work::Scan, Work::Sort];
    check::<Any>(&d, &Plan { seed: 1, rounds: 0..3, largest: 20_000, works });
}

/// A class of positions that no tap meets has no terms, and reads none ahead: the filters' strides
/// go backwards, so that a tap past the last one is in front of their memory.
#[test]
fn a_gradient_without_terms_reads_nothing() {
    let d = Device::Cuda(super::cuda());
    let one = elinvar_conformance::equal::check::<Any>(&d, 3, Work::ConvInputGrad, 39, 20_000);
    one.unwrap_or_else(|difference| panic!("{}", difference.what));
}

#[cfg(feature = "webgpu")]
#[test]
fn webgpus_work_has_the_references_bits() {
    let Some(d) = super::webgpu() else { return };
    check::<Gpu<_>>(&d, &Plan { rounds: 0..1, largest: 3000, ..Plan::default() });
}

#[cfg(all(feature = "metal", target_vendor = "apple"))]
#[test]
fn metals_work_has_the_references_bits() {
    let Some(d) = super::metal() else { return };
    check::<Gpu<_>>(&d, &Plan { rounds: 0..12, largest: 3000, ..Plan::default() });
}

#[test]
fn vulkans_work_has_the_references_bits() {
    let Some(d) = super::vulkan().map(Device::Vulkan) else { return };
    let part = Part::of_tests();
    check::<Any>(&d, &Plan { rounds: part.rounds(12), largest: 3000, ..Plan::default() });
    // Where what a workgroup has in common is largest.
    let works = vec![Work::Fold, Work::Rows, Work::Contract, Work::Scan, Work::Sort];
    check::<Any>(&d, &Plan { seed: 1, rounds: part.rounds(3), largest: 20_000, works });
    assert!(elinvar_driver::vulkan::validation_messages().is_empty());
}
