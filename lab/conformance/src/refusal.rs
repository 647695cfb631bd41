//! Devices without 64-bit floats: they refuse work of such, with a sentence that says so, and
//! nothing else.

use crate::golden::Case;
use elinvar_core::{DType, Error, ErrorKind, HostTensor, Result, Shape};
use elinvar_ops::{Array, Backend, catalogue};

/// What the sentence of each refusal contains.
const SENTENCE: &str = "64-bit floats";

/// Does this error say that a device has no 64-bit floats?
pub fn says_no_f64(e: &Error) -> bool {
    e.kind() == ErrorKind::Unsupported && e.message().contains(SENTENCE)
}

/// Has a device no 64-bit floats? It is asked for a sum of two.
pub fn lacks_f64<B: Backend>(device: &B::Device) -> bool {
    let sum = || -> Result<HostTensor> {
        let one = HostTensor::from_vec(vec![1.0f64], Shape::new(&[1])?)?;
        let x = Array::<B>::from_host(device, one)?;
        catalogue::add(&x, &x)?.to_host()
    };
    sum().is_err_and(|e| says_no_f64(&e))
}

/// Has a case operands or results of f64?
fn is_of_f64(case: &Case) -> bool {
    case.inputs.iter().any(|i| i.tensor.dtype() == DType::F64)
        || case.outputs.iter().any(|o| o.dtype == DType::F64)
}

/// Why a case that failed is none that the device should pass: it is of f64, of which it has said
/// that it has none.
pub fn of_case<B: Backend>(case: &Case, device: &B::Device, why: &str) -> Option<String> {
    (why.contains(SENTENCE) && is_of_f64(case) && lacks_f64::<B>(device))
        .then(|| format!("{device} has no {SENTENCE}, and says so"))
}
