//! baddbmm: addmm for each batch.

use super::{addmm, bmm};
use crate::prelude::*;

/// beta * input + alpha * (x @ y) for batches x [b, m, k] and y [b, k, n]; `input` broadcasts to
/// [b, m, n], and is not read if beta is 0. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`, also if a factor does not fit the operands; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn baddbmm<V: Value>(
    input: &V,
    x: &V,
    y: &V,
    beta: impl Into<Scalar>,
    alpha: impl Into<Scalar>,
) -> Result<V> {
    bmm::check("baddbmm", x.shape(), y.shape())?;
    addmm::run("baddbmm", [input, x, y], beta.into(), alpha.into())
}

/// By name: operands input, x and y; attributes beta and alpha.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (beta, alpha) = (a.scalar("beta")?, a.scalar("alpha")?);
    Ok(vec![baddbmm(a.input("input")?, a.input("x")?, a.input("y")?, beta, alpha)?])
}
