//! Devices without floats of some type: they refuse work of such, with a sentence that says so, and
//! nothing else.

use crate::golden::Case;
use elinvar_core::{DType, Error, ErrorKind, HostData, HostTensor, Result, Scalar, Shape};
use elinvar_ops::{Array, Backend, catalogue};

/// Something that a device may lack.
struct Lack {
    /// What the sentence of each refusal contains.
    sentence: &'static str,
    /// The types that it is about.
    dtypes: &'static [DType],
    /// What is said of the device.
    what: &'static str,
}

const LACKS: [Lack; 2] = [
    Lack { sentence: "64-bit floats", dtypes: &[DType::F64], what: "has no 64-bit floats" },
    Lack {
        sentence: "takes subnormal numbers for 0 in sums of f64",
        dtypes: &[DType::F64],
        what: "computes f64 without subnormal numbers",
    },
];

fn is_said(e: &Error, lack: &Lack) -> bool {
    e.kind() == ErrorKind::Unsupported && e.message().contains(lack.sentence)
}

/// Does this error say that a device has no 64-bit floats, or none with subnormal numbers?
pub fn says_no_f64(e: &Error) -> bool {
    LACKS.iter().any(|lack| is_said(e, lack))
}

/// Has a device no 64-bit floats? It is asked for the square of one.
pub fn lacks_f64<B: Backend>(device: &B::Device) -> bool {
    LACKS.iter().any(|lack| lacks::<B>(device, lack))
}

/// Does a device refuse the square of a number, with this sentence?
fn lacks<B: Backend>(device: &B::Device, lack: &Lack) -> bool {
    let refuses = |dtype| {
        let square = || -> Result<HostTensor> {
            let one = HostTensor::new(Shape::new(&[1])?, HostData::full(dtype, 1, Scalar::Int(1))?)?;
            let x = Array::<B>::from_host(device, one)?;
            catalogue::mul(&x, &x)?.to_host()
        };
        square().is_err_and(|e| is_said(&e, lack))
    };
    lack.dtypes.iter().all(|dtype| refuses(*dtype))
}

/// Ops that by their definition compute in 64-bit floats what is given as integers: a tolerance.
const BY_F64: [&str; 2] = ["isclose", "allclose"];

/// Has a case operands or results of one of these types, or is it computed in one?
fn is_of(case: &Case, dtypes: &[DType]) -> bool {
    (dtypes.contains(&DType::F64) && BY_F64.contains(&&*case.op))
        || case.inputs.iter().any(|i| dtypes.contains(&i.tensor.dtype()))
        || case.outputs.iter().any(|o| dtypes.contains(&o.dtype))
}

/// Why a case that failed is none that the device should pass: it is of a type of which the device
/// has said that it lacks it.
pub fn of_case<B: Backend>(case: &Case, device: &B::Device, why: &str) -> Option<String> {
    let lack = LACKS.iter().find(|l| why.contains(l.sentence) && is_of(case, l.dtypes))?;
    lacks::<B>(device, lack).then(|| format!("{device} {}, and says so", lack.what))
}
