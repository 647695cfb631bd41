//! index_fill: whole slices of an axis set to one value.

use super::gather::at_least_1d;
use super::{index_select, reshape, scatter};
use crate::prelude::*;

/// A copy of `x` in which the slices of axis `dim` that the vector `index` names are `value`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or an index is not in `0..size`; `ShapeMismatch` if the index is no
/// vector; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn index_fill<V: Value>(x: &V, dim: isize, index: &V, value: impl Into<Scalar>) -> Result<V> {
    let axis = x.shape().axis("index_fill", dim)?;
    let base = at_least_1d(x)?;
    let at = index_select::spread("index_fill", base.shape(), axis, index)?;
    reshape::to_shape(&scatter::value(&base, axis as isize, &at, value.into())?, x.shape())
}

/// By name: operands x and index; attributes dim and value.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![index_fill(a.input("x")?, a.dim("dim")?, a.input("index")?, a.scalar("value")?)?])
}
