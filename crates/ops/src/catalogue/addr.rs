//! addr: a scaled outer product plus a scaled operand.

use super::{addmm, addmv, reshape};
use crate::autocast;
use crate::prelude::*;

/// beta * input + alpha * `x[i] * y[j]` for vectors x \[m\] and y \[n\]; `input` broadcasts to
/// [m, n], and is not read if beta is 0.
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`, also if a factor does not fit the operands; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn addr<V: Value>(input: &V, x: &V, y: &V, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Result<V> {
    let (beta, alpha) = (beta.into(), alpha.into());
    let ([m], [n]) = (&x.shape()[..], &y.shape()[..]) else {
        return Err(Error::shape(format!(
            "addr: operands of shapes {} and {}; they must be vectors",
            x.shape(),
            y.shape()
        )));
    };
    let (column, row) = (Shape::new(&[*m, 1])?, Shape::new(&[1, *n])?);
    autocast::run("addr", [input, x, y], |[input, x, y]| {
        let (x, y) = (reshape::to_shape(x, &column)?, reshape::to_shape(y, &row)?);
        addmm::run("addr", [input, &x, &y], beta, alpha)
    })
}

/// By name: operands input, x and y; attributes beta and alpha (absent: 1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (beta, alpha) = addmv::factors(a)?;
    Ok(vec![addr(a.input("input")?, a.input("x")?, a.input("y")?, beta, alpha)?])
}
