//! scatter_add: elements added along an axis at given indices. Repeated indices add one by one, in
//! row-major order.

use super::scatter;
use crate::prelude::*;

/// A copy of `x` to which each element of `src` is added at the position that `index` names along
/// `dim`, the same as its own in all other axes: y[index[i, j], j] += src[i, j] for `dim` 0.
/// `index` may be smaller than `src` and than `x`; the rest of `src` is not used. Sums run in
/// row-major order of the index, storage floats in f32 with one rounding.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if there is no such axis or an index is not in `0..size`;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn scatter_add<V: Value>(x: &V, dim: isize, index: &V, src: &V) -> Result<V> {
    scatter::run("scatter_add", Scatter::Add, x, dim, index, src)
}

/// By name: operands x, index and src; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![scatter_add(a.input("x")?, a.dim("dim")?, a.input("index")?, a.input("src")?)?])
}
