//! addbmm: the sum of the products of two batches, scaled, plus a scaled operand: one product over
//! batch and inner axis.

use super::{addmm, addmv, bmm, permute, reshape};
use crate::autocast;
use crate::prelude::*;

/// beta * input + alpha * (the sum over b of x\[b\] @ y\[b\]) for batches x [b, m, k] and y
/// [b, k, n]; `input` broadcasts to [m, n], and is not read if beta is 0.
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`, also if a factor does not fit the operands; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn addbmm<V: Value>(
    input: &V,
    x: &V,
    y: &V,
    beta: impl Into<Scalar>,
    alpha: impl Into<Scalar>,
) -> Result<V> {
    let (beta, alpha) = (beta.into(), alpha.into());
    bmm::check("addbmm", x.shape(), y.shape())?;
    autocast::run("addbmm", [input, x, y], |[input, x, y]| {
        let ([b, m, k], n) = ([x.shape()[0], x.shape()[1], x.shape()[2]], y.shape()[2]);
        let rows = reshape::to_shape(&permute(x, &[1, 0, 2])?, &Shape::new(&[m, b * k])?)?;
        let columns = reshape::to_shape(y, &Shape::new(&[b * k, n])?)?;
        addmm::run("addbmm", [input, &rows, &columns], beta, alpha)
    })
}

/// By name: operands input, x and y; attributes beta and alpha (absent: 1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (beta, alpha) = addmv::factors(a)?;
    Ok(vec![addbmm(a.input("input")?, a.input("x")?, a.input("y")?, beta, alpha)?])
}
