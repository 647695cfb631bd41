//! Every op with operands of storage floats, of which the collections of cases have few.

use elinvar_conformance::execute::execute;
use elinvar_conformance::filter::Filter;
use elinvar_conformance::golden::Case;
use elinvar_conformance::part::Part;
use elinvar_conformance::refusal::{lacks_f64, says_no_f64};
use elinvar_conformance::run::same;
use elinvar_conformance::sample;
use elinvar_core::{DType, HostTensor};
use elinvar_devices::{Any, DeviceInfo, devices};
use elinvar_ops::Array;
use elinvar_reference::{Reference, ReferenceDevice};

fn stored(x: &HostTensor, dtype: DType) -> HostTensor {
    if x.dtype() != DType::F32 {
        return x.clone();
    }
    let x = Array::<Reference>::from_host(&ReferenceDevice, x.clone()).unwrap();
    x.cast(dtype).unwrap().to_host().unwrap()
}

/// The same case with operands and seeds that were f32 stored in this dtype.
fn with(case: &Case, dtype: DType) -> Case {
    let mut case = Case { dtype, ..case.clone() };
    for input in &mut case.inputs {
        input.tensor = stored(&input.tensor, dtype);
        input.view = None;
    }
    for seed in case.grad_outputs.iter_mut().flatten() {
        *seed = stored(seed, dtype);
    }
    case.grads.iter_mut().for_each(|g| g.base = None);
    case
}

/// Is this case left out on a device? A software device spends nearly all its time on compiling
/// kernels: there, a part of the tests has some of the ops with each type. Two such devices (Vulkan
/// and WebGPU on the same software) have others.
fn is_left_out(devices: &[DeviceInfo], device: usize, op: usize, dtype: usize) -> bool {
    let is_software = |d: &DeviceInfo| d.properties.class == "software";
    let before = devices[..device].iter().filter(|d| is_software(d)).count();
    is_software(&devices[device]) && !Part::of_tests().has(before + op + dtype)
}

/// Results and gradients, or the kind of error, are those of the reference.
#[test]
fn every_op_has_the_references_bits_with_floats_of_one_byte() {
    let mut cases = sample::cases(&Filter::default()).unwrap();
    cases.retain(|c| c.dtype == DType::F32);
    cases.dedup_by(|a, b| a.op == b.op);
    let devices = devices().unwrap();
    let mut computed = 0;
    for (k, dtype) in DType::STORAGE.into_iter().filter(|d| d.size() == 1).enumerate() {
        for (op, case) in cases.iter().map(|c| with(c, dtype)).enumerate() {
            let want = execute::<Reference>(&case, &ReferenceDevice);
            computed += usize::from(want.is_ok());
            for (place, d) in devices.iter().enumerate() {
                if is_left_out(&devices, place, op, k) {
                    continue;
                }
                match (&want, execute::<Any>(&case, &d.device)) {
                    (Ok(want), Ok(got)) => {
                        same(&got, want)
                            .unwrap_or_else(|what| panic!("{dtype} {} {}: {what}", case.id, d.device));
                    }
                    (Err(want), Err(got)) => {
                        assert_eq!(got.kind(), want.kind(), "{dtype} {} {}: {got}", case.id, d.device);
                    }
                    // An op that computes in f64, on a device that has none.
                    (Ok(_), Err(got)) if says_no_f64(&got) && lacks_f64::<Any>(&d.device) => {}
                    (want, got) => {
                        let (got, want) = (got.err(), want.as_ref().err());
                        panic!("{dtype} {} {}: {got:?}, not {want:?}", case.id, d.device);
                    }
                }
            }
        }
    }
    assert!(computed > cases.len(), "{computed} of {} ran", 2 * cases.len());
}
