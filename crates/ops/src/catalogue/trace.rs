//! trace: the sum of a matrix's diagonal.

use super::{diagonal, sum};
use crate::prelude::*;

/// The sum of the main diagonal of a matrix `x`. Integers and bool sum to i64.
///
/// # Errors
/// `ShapeMismatch` if x is not a matrix; `OutOfMemory`.
pub fn trace<V: Value>(x: &V) -> Result<V> {
    autocast!("trace", x => trace(x));
    if x.shape().rank() != 2 {
        return Err(Error::shape(format!("trace: shape {}; it must be a matrix", x.shape())));
    }
    sum(&diagonal(x, 0, 0, 1)?, None, false)
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![trace(a.input("x")?)?])
}
