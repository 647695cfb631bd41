//! median: the element in the middle of a sorted axis, the lower one of two. NaN if there is any.

use super::gather::at_least_1d;
use super::{argmax, argsort, flatten, gather, isnan, kthvalue, narrow, sum, where_};
use crate::prelude::*;

/// The median of `x` along `dim` and its index (i64): (values, indices). Of an even number the
/// lower of the two in the middle. The first NaN, if there is one. The gradient goes to the element
/// at the index.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn median<V: Value>(x: &V, dim: isize, keepdim: bool) -> Result<(V, V)> {
    let axis = x.shape().axis("median", dim)?;
    let line = at_least_1d(x)?;
    sum::not_empty("median", line.shape(), &[axis])?;
    let n = line.shape()[axis];
    let order = argsort(&line, axis as isize, false)?;
    let mut index = narrow::run(&order, axis, (n - 1) / 2, 1)?;
    if x.dtype().is_float() {
        // NaN sorts to the end, and the first one is what argmax finds.
        let last = narrow::run(&order, axis, n - 1, 1)?;
        let nan = isnan(&gather(&line.detached(), axis as isize, &last)?)?;
        index = where_(&nan, &argmax(&line, Some(axis as isize), true)?, &index)?;
    }
    kthvalue::at(x, &line, axis, &index, keepdim)
}

/// The median of all elements.
///
/// # Errors
/// `InvalidArgument` if there is none; `OutOfMemory`.
pub fn all<V: Value>(x: &V) -> Result<V> {
    Ok(median(&flatten::all(x)?, 0, false)?.0)
}

/// By name: operand x; attributes dim (null: the median of all elements, without an index) and
/// keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let Some(dim) = a.maybe("dim", Args::dim)? else { return Ok(vec![all(a.input("x")?)?]) };
    let (values, indices) = median(a.input("x")?, dim, a.bool("keepdim")?)?;
    Ok(vec![values, indices])
}
