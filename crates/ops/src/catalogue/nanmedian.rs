//! nanmedian: the element in the middle of those of a sorted axis that are not NaN, the lower one
//! of two.

use super::gather::at_least_1d;
use super::{argsort, flatten, floor_divide, gather, isnan, kthvalue, logical_not, maximum, median, sub, sum};
use crate::prelude::*;

/// The median of the elements of `x` along `dim` that are not NaN, and its index (i64): (values,
/// indices). NaN where all are. The gradient goes to the element at the index.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn nanmedian<V: Value>(x: &V, dim: isize, keepdim: bool) -> Result<(V, V)> {
    if !x.dtype().is_float() {
        return median(x, dim, keepdim);
    }
    let axis = x.shape().axis("nanmedian", dim)?;
    let line = at_least_1d(x)?;
    sum::not_empty("nanmedian", line.shape(), &[axis])?;
    let order = argsort(&line, axis as isize, false)?;
    let count = sum(&logical_not(&isnan(&line.detached())?)?, Some(&[axis as isize]), true)?;
    let number = |v: i64| count.scalar_like(v);
    let last = maximum(&sub(&count, &number(1)?)?, &number(0)?)?;
    let index = gather(&order, axis as isize, &floor_divide(&last, &number(2)?)?)?;
    kthvalue::at(x, &line, axis, &index, keepdim)
}

/// The median of all elements that are not NaN.
///
/// # Errors
/// `InvalidArgument` if there is none; `OutOfMemory`.
pub fn all<V: Value>(x: &V) -> Result<V> {
    Ok(nanmedian(&flatten::all(x)?, 0, false)?.0)
}

/// By name: operand x; attributes dim (null: the median of all elements, without an index) and
/// keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let Some(dim) = a.maybe("dim", Args::dim)? else { return Ok(vec![all(a.input("x")?)?]) };
    let (values, indices) = nanmedian(a.input("x")?, dim, a.bool("keepdim")?)?;
    Ok(vec![values, indices])
}
