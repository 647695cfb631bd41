//! addmv: a scaled product of a matrix and a vector plus a scaled operand.

use super::{addmm, reshape};
use crate::autocast;
use crate::prelude::*;

/// beta * input + alpha * (x @ y) for a matrix x [m, k] and a vector y \[k\]; `input` broadcasts to
/// \[m\], and is not read if beta is 0.
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`, also if a factor does not fit the operands; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn addmv<V: Value>(input: &V, x: &V, y: &V, beta: impl Into<Scalar>, alpha: impl Into<Scalar>) -> Result<V> {
    let (beta, alpha) = (beta.into(), alpha.into());
    if x.shape().rank() != 2 || y.shape().rank() != 1 || input.shape().rank() > 1 {
        return Err(Error::shape(format!(
            "addmv: operands of shapes {}, {} and {}; they must be [m] or [], [m, k] and [k]",
            input.shape(),
            x.shape(),
            y.shape()
        )));
    }
    autocast::run("addmv", [input, x, y], |[input, x, y]| {
        let column = |v: &V| if v.shape().rank() == 0 { Ok(v.clone()) } else { reshape::to_shape(v, &Shape::new(&[v.shape()[0], 1])?) };
        let (start, m) = (column(input)?, x.shape()[0]);
        let y = reshape::to_shape(y, &Shape::new(&[y.shape()[0], 1])?)?;
        let sum = addmm::run("addmv", [&start, x, &y], beta, alpha)?;
        reshape::to_shape(&sum, &Shape::new(&[m])?)
    })
}

/// The attributes beta and alpha (absent: 1).
pub(super) fn factors<V: Value>(a: &Args<V>) -> Result<(Scalar, Scalar)> {
    let factor = |name| Ok::<_, Error>(a.maybe(name, Args::scalar)?.unwrap_or(Scalar::Int(1)));
    Ok((factor("beta")?, factor("alpha")?))
}

/// By name: operands input, x and y; attributes beta and alpha (absent: 1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (beta, alpha) = factors(a)?;
    Ok(vec![addmv(a.input("input")?, a.input("x")?, a.input("y")?, beta, alpha)?])
}
