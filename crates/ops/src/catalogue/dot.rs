//! dot: the sum of the products of two vectors, in the order of a contraction.

use super::matmul;
use crate::prelude::*;

/// The sum of `x[i] * y[i]` for vectors of one length.
///
/// # Errors
/// `ShapeMismatch` if an operand is not a vector or the lengths differ; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn dot<V: Value>(x: &V, y: &V) -> Result<V> {
    autocast!("dot", x, y => dot(x, y));
    if x.shape().rank() != 1 || x.shape() != y.shape() {
        return Err(Error::shape(format!(
            "dot: operands of shapes {} and {}; they must be vectors of one length",
            x.shape(),
            y.shape()
        )));
    }
    matmul(x, y).map_err(|e| e.at("dot"))
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![dot(a.input("x")?, a.input("y")?)?])
}
