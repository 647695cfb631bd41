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
    let at = numbers(x)?;
    add(&at, &at.full_like(1i64)?, min_length)
}

/// The sum of the `weights` of the elements of `x` that are 0, 1, .., in their order.
///
/// # Errors
/// As [`bincount`]; `ShapeMismatch` if there are more or fewer weights than elements;
/// `DeviceMismatch`.
pub fn weighted<V: Value>(x: &V, weights: &V, min_length: usize) -> Result<V> {
    let at = numbers(x)?;
    if weights.shape() != x.shape() {
        return Err(Error::shape(format!(
            "bincount: weights of shape {} for shape {}; they must be equal",
            weights.shape(),
            x.shape()
        )));
    }
    add(&at, &weights.detached(), min_length)
}

fn numbers<V: Value>(x: &V) -> Result<V> {
    if x.shape().rank() != 1 {
        return Err(Error::shape(format!("bincount: shape {}; it must be a vector", x.shape())));
    }
    as_index("bincount", x)
}

fn add<V: Value>(at: &V, what: &V, min_length: usize) -> Result<V> {
    let n = if at.shape().numel() == 0 { 0 } else { one_hot::classes(at)? };
    let zeros = view::zeros(what, &Shape::new(&[n.max(min_length)])?)?;
    scatter::run("bincount", Scatter::Add, &zeros, 0, at, what)
}

/// By name: operand x, and weights if there are some; attribute min_length.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, min_length) = (a.input("x")?, a.size("min_length")?);
    Ok(vec![match a.optional("weights") {
        Some(weights) => weighted(x, weights, min_length)?,
        None => bincount(x, min_length)?,
    }])
}
