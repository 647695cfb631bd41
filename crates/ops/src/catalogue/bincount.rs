//! bincount: how often each whole number occurs. The size of the result depends on the values, so
//! this synchronises with the device. No gradient.

use super::gather::as_index;
use super::{one_hot, scatter, view};
use crate::prelude::*;

/// How often (i64) each of 0, 1, .. occurs in the vector `x` of integers, up to its largest number,
/// and for `min_length` numbers at least.
///
/// # Errors
/// `ShapeMismatch` if x is not a vector; `InvalidArgument` if a number is negative; `DTypeMismatch`
/// if x is not of integers; `OutOfMemory`.
pub fn bincount<V: Value>(x: &V, min_length: usize) -> Result<V> {
    if x.shape().rank() != 1 {
        return Err(Error::shape(format!("bincount: shape {}; it must be a vector", x.shape())));
    }
    let at = as_index("bincount", x)?;
    let n = if x.shape().numel() == 0 { 0 } else { one_hot::classes(&at)? };
    let zeros = view::zeros(&at, &Shape::new(&[n.max(min_length)])?)?;
    scatter::run("bincount", Scatter::Add, &zeros, 0, &at, &at.full_like(1i64)?)
}

/// By name: operand x; attribute min_length.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![bincount(a.input("x")?, a.size("min_length")?)?])
}
