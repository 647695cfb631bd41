//! index_reduce: slices reduced along an axis at the indices in a vector.

use super::scatter_reduce::{self, Reduce};
use super::{index_copy, reshape};
use crate::prelude::*;

/// A copy of `x` in which each slice of axis `dim` that the vector `index` names is the reduction
/// of the slices of `src` with this index, and of itself if `include_self`. `src` agrees with `x`
/// in all other axes.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or an index is not in `-size..size`; `ShapeMismatch`;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn index_reduce<V: Value>(
    x: &V,
    dim: isize,
    index: &V,
    src: &V,
    reduce: Reduce,
    include_self: bool,
) -> Result<V> {
    let (axis, [base, at, from]) = index_copy::slices("index_reduce", x, dim, index, src)?;
    if at.shape().numel() == 0 {
        return Ok(x.clone());
    }
    let y = scatter_reduce::run("index_reduce", [&base, &at, &from], axis, reduce, include_self)?;
    reshape::to_shape(&y, x.shape())
}

/// By name: operands x, index and src; attributes dim, reduce (prod, mean, amax, amin or sum) and
/// include_self (absent: true).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let reduce = Reduce::parse(&a.op, a.str("reduce")?)?;
    let include_self = a.maybe("include_self", Args::bool)?.unwrap_or(true);
    let (x, index, src) = (a.input("x")?, a.input("index")?, a.input("src")?);
    Ok(vec![index_reduce(x, a.dim("dim")?, index, src, reduce, include_self)?])
}
