//! index_fill: whole slices of an axis set to one value.

use super::gather::{self, at_least_1d};
use super::{index_select, reshape, scatter};
use crate::prelude::*;

/// A copy of `x` in which the slices of axis `dim` that the vector `index` names are `value`.
/// Indices may count from the end.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or an index is not in `-size..size`; `ShapeMismatch`
/// if the index is not a vector; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn index_fill<V: Value>(x: &V, dim: isize, index: &V, value: impl Into<Scalar>) -> Result<V> {
    let axis = x.shape().axis("index_fill", dim)?;
    let base = at_least_1d(x)?;
    let at = index_select::spread("index_fill", base.shape(), axis, index)?;
    let at = gather::wrap(&at, base.shape()[axis])?;
    let y = scatter::value(&base, axis as isize, &at, value.into()).map_err(|e| e.at("index_fill"))?;
    reshape::to_shape(&y, x.shape())
}

/// By name: operands x and index; attributes dim and value.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![index_fill(a.input("x")?, a.dim("dim")?, a.input("index")?, a.scalar("value")?)?])
}
