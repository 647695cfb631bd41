//! cummin: the smallest element of an axis up to each one, and where it is; the last one among
//! equals, the last NaN if there is any.

use super::{cummax, ge};
use crate::prelude::*;

/// The smallest element of `x` along `dim` up to each one, and its index (i64): (values, indices).
/// NaN wins; of equal elements the last. The gradient goes to the element at the index.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn cummin<V: Value>(x: &V, dim: isize) -> Result<(V, V)> {
    cummax::run("cummin", x, dim, ge)
}

/// By name: operand x; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (values, indices) = cummin(a.input("x")?, a.dim("dim")?)?;
    Ok(vec![values, indices])
}
