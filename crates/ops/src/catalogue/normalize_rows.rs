//! normalize: rows divided by their p-norm. (The statistics of layer_norm and others are another
//! thing, of the file `normalize.rs`.)

use super::{clamp, div::div, norm};
use crate::prelude::*;

/// x / max(the `p`-norm of x over `dim`, eps).
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or p is NaN; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn normalize_rows<V: Value>(x: &V, p: f64, dim: isize, eps: f64) -> Result<V> {
    widen([x], |[x]| {
        let length = norm(x, p, Some(&[dim]), true).map_err(|e| e.at("normalize"))?;
        div(x, &clamp(&length, Some(Scalar::Float(eps)), None)?)
    })
}

/// By name: operand x; attributes p (absent: 2), dim (absent: 1) and eps (absent: 1e-12).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let number = |name, default| Ok::<_, Error>(a.maybe(name, Args::f64)?.unwrap_or(default));
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(1);
    Ok(vec![normalize_rows(a.input("x")?, number("p", 2.0)?, dim, number("eps", 1e-12)?)?])
}
