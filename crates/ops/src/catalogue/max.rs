//! max: the largest element along an axis, and its index. The gradient goes to that one element.

use super::gather::at_least_1d;
use super::{amax, argmax, gather, sum};
use crate::fold;
use crate::prelude::*;

/// The element that `f` looks for along `dim`, and its index.
///
/// # Errors
/// As [`max`].
pub(super) fn run<V: Value>(op: &str, f: ArgFold, x: &V, dim: isize, keepdim: bool) -> Result<(V, V)> {
    let axis = x.shape().axis(op, dim)?;
    let line = at_least_1d(x)?;
    let index = argmax::run(op, f, &line, Some(axis as isize), true)?;
    let value = gather(&line, axis as isize, &index)?;
    let keep = keepdim && x.shape().rank() > 0;
    Ok((sum::drop_axes(value, &[axis], keep)?, sum::drop_axes(index, &[axis], keep)?))
}

/// The largest element of `x` along `dim` and its index (i64): (values, indices). The first among
/// equals; the first NaN, if there is one. The gradient goes to the element at the index. (Over all
/// elements: `amax`.)
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn max<V: Value>(x: &V, dim: isize, keepdim: bool) -> Result<(V, V)> {
    run("max", ArgFold::Max, x, dim, keepdim)
}

/// By name: operand x; attributes dim (null: the value only, over all elements, of shape []) and
/// keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, keepdim) = (a.input("x")?, a.bool("keepdim")?);
    match a.maybe("dim", Args::dim)? {
        None => Ok(vec![amax::run("max", fold::Max, x, None, false)?]),
        Some(dim) => max(x, dim, keepdim).map(|(v, i)| vec![v, i]),
    }
}
