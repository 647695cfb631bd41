//! addmm: a scaled matrix product plus a scaled operand.

use super::matmul::Matmul;
use super::{add, mul, view};
use crate::autocast;
use crate::prelude::*;
use crate::value::{broadcast, widen};

/// beta * input + alpha * (x @ y) for matrices x [m, k] and y [k, n]; `input` broadcasts to [m, n],
/// and is not read if beta is 0. Storage floats run in f32 and are rounded once.
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch`, also if a factor does not fit the operands; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn addmm<V: Value>(
    input: &V,
    x: &V,
    y: &V,
    beta: impl Into<Scalar>,
    alpha: impl Into<Scalar>,
) -> Result<V> {
    if x.shape().rank() != 2 || y.shape().rank() != 2 {
        return Err(Error::shape(format!(
            "addmm: operands of shapes {} and {}; they must be [m, k] and [k, n]",
            x.shape(),
            y.shape()
        )));
    }
    run("addmm", [input, x, y], beta.into(), alpha.into())
}

/// The scaled sum, for matrices or batches of them.
///
/// # Errors
/// As [`addmm`].
pub(super) fn run<V: Value>(op: &str, operands: [&V; 3], beta: Scalar, alpha: Scalar) -> Result<V> {
    if V::autocast().is_some() {
        return autocast::run(op, operands, |operands| run(op, operands, beta, alpha));
    }
    let dtype = view::same_dtype(op, &operands)?;
    [beta, alpha].into_iter().try_for_each(|s| s.fits(dtype)).map_err(|e| e.at(op))?;
    let scaled = |v: V, s: Scalar| if s.to_f64() == 1.0 { Ok(v) } else { mul(&v, &v.scalar_like(s)?) };
    widen(operands, |[input, x, y]| {
        let product = V::apply(Matmul::with(x), &[x, y]).map_err(|e| e.at(op))?;
        let shape = product.shape().clone();
        let input = broadcast(input, &shape).map_err(|e| e.at(op))?;
        let product = scaled(product, alpha)?;
        if beta.to_f64() == 0.0 { Ok(product) } else { add(&scaled(input, beta)?, &product) }
    })
}

/// By name: operands input, x and y; attributes beta and alpha.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (beta, alpha) = (a.scalar("beta")?, a.scalar("alpha")?);
    Ok(vec![addmm(a.input("input")?, a.input("x")?, a.input("y")?, beta, alpha)?])
}
