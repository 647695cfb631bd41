//! outer: all products of the elements of two vectors.

use super::{mul, unsqueeze};
use crate::prelude::*;

/// `x[i] * y[j]` for vectors `x [m]` and `y [n]`: `[m, n]`.
///
/// # Errors
/// `ShapeMismatch` if an operand is not a vector; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn outer<V: Value>(x: &V, y: &V) -> Result<V> {
    if x.shape().rank() != 1 || y.shape().rank() != 1 {
        return Err(Error::shape(format!(
            "outer: operands of shapes {} and {}; they must be vectors",
            x.shape(),
            y.shape()
        )));
    }
    mul(&unsqueeze(x, 1)?, y).map_err(|e| e.at("outer"))
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![outer(a.input("x")?, a.input("y")?)?])
}
