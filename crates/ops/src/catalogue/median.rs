//! median: the element in the middle of a sorted axis, the lower one of two. NaN if there is any.

use super::gather::at_least_1d;
use super::{argmax, argsort, gather, isnan, narrow, sum, where_};
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
    let value = gather(&line, axis as isize, &index)?;
    let keep = keepdim && x.shape().rank() > 0;
    Ok((sum::drop_axes(value, &[axis], keep)?, sum::drop_axes(index, &[axis], keep)?))
}

/// By name: operand x; attributes dim and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (values, indices) = median(a.input("x")?, a.dim("dim")?, a.bool("keepdim")?)?;
    Ok(vec![values, indices])
}
