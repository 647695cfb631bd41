//! index_copy: slices written along an axis at the indices in a vector. Where an index repeats, the
//! last slice stays.

use super::gather::{self, at_least_1d};
use super::scatter::ScatterOp;
use super::{index_select, reshape, view};
use crate::prelude::*;

/// The axis, and `x`, an index for each element and `src`, each with an axis at least, for an op
/// that writes slice `i` of `src` along `dim` to slice `index[i]`. Indices may count from the end.
///
/// # Errors
/// As [`index_copy`].
pub(super) fn slices<V: Value>(
    op: &str,
    x: &V,
    dim: isize,
    index: &V,
    src: &V,
) -> Result<(usize, [V; 3])> {
    view::same_dtype(op, &[x, src])?;
    let axis = x.shape().axis(op, dim)?;
    let (base, from) = (at_least_1d(x)?, at_least_1d(src)?);
    let index = gather::wrap(&gather::as_index(op, index)?, base.shape()[axis])?;
    let at = index_select::spread(op, base.shape(), axis, &index)?;
    if from.shape() != at.shape() {
        return Err(Error::shape(format!(
            "{op}: a source of shape {} for shape {} and {} indices along axis {axis}; it must be {}",
            src.shape(),
            x.shape(),
            index.shape().numel(),
            at.shape()
        )));
    }
    Ok((axis, [base, at, from]))
}

/// A copy of `x` whose slices of axis `dim` that the vector `index` names are those of `src`, which
/// agrees with `x` in all other axes. Where an index repeats, the last stays.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or an index is not in `-size..size`; `ShapeMismatch`;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn index_copy<V: Value>(x: &V, dim: isize, index: &V, src: &V) -> Result<V> {
    let (axis, [base, at, from]) = slices("index_copy", x, dim, index, src)?;
    let y = V::apply(ScatterOp { how: Scatter::Set, axis }, &[&base, &at, &from]);
    reshape::to_shape(&y.map_err(|e| e.at("index_copy"))?, x.shape())
}

/// By name: operands x, index and src; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![index_copy(a.input("x")?, a.dim("dim")?, a.input("index")?, a.input("src")?)?])
}
