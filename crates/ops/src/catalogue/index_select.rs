//! index_select: whole slices of an axis picked by a vector of indices.

use super::gather::{Gather, as_index, at_least_1d};
use super::{reshape, view};
use crate::prelude::*;

/// A vector of indices as an index for a gather or scatter along `axis`, the same at every position
/// of the other axes. A view with strides of 0, by which a backend recognises that whole slices are
/// selected.
///
/// # Errors
/// `ShapeMismatch` if it is not a vector; `DTypeMismatch` if it is not of integers;
/// `InvalidArgument` if an index is not in `0..size` and no slice has an element at which a backend
/// would notice.
pub(super) fn spread<V: Value>(op: &str, x: &Shape, axis: usize, index: &V) -> Result<V> {
    if index.shape().rank() > 1 {
        return Err(Error::shape(format!("{op}: an index of shape {}; it must be a vector", index.shape())));
    }
    let index = at_least_1d(&as_index(op, index)?)?;
    let n = index.shape().numel();
    let mut column = Dims::from_elem(1, x.rank());
    column[axis] = n;
    let wide = view::resized(x, axis, n)?;
    if wide.numel() == 0 {
        let places = view::zeros(&index, &Shape::new(&[x[axis]])?)?;
        V::apply(Gather { axis: 0 }, &[&places, &index]).map_err(|e| e.at(op))?;
    }
    let a = index.array().reshape(&Shape::new(&column)?)?;
    Ok(V::from_array(a.broadcast_to(&wide, op)?))
}

/// The slices of axis `dim` of `x` that the vector `index` names, in its order.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or an index is not in `0..size`; `ShapeMismatch` if
/// the index is not a vector; `DTypeMismatch` if it is not of integers; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn index_select<V: Value>(x: &V, dim: isize, index: &V) -> Result<V> {
    let axis = x.shape().axis("index_select", dim)?;
    let from = at_least_1d(x)?;
    let at = spread("index_select", from.shape(), axis, index)?;
    let y = V::apply(Gather { axis }, &[&from, &at]).map_err(|e| e.at("index_select"))?;
    if x.shape().rank() > 0 {
        return Ok(y);
    }
    if index.shape().numel() != 1 {
        return Err(Error::shape(format!(
            "index_select: an index of shape {} for a scalar; it can name one element only",
            index.shape()
        )));
    }
    reshape::to_shape(&y, x.shape())
}

/// By name: operands x and index; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![index_select(a.input("x")?, a.dim("dim")?, a.input("index")?)?])
}
