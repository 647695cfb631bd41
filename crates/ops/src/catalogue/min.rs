//! min: the smallest element along an axis, and its index. The gradient goes to that one element.

use super::{amax, max};
use crate::fold;
use crate::prelude::*;

/// The smallest element of `x` along `dim` and its index (i64): (values, indices). The first among
/// equals; the first NaN, if there is one. The gradient goes to the element at the index. (Over all
/// elements: `amin`.)
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn min<V: Value>(x: &V, dim: isize, keepdim: bool) -> Result<(V, V)> {
    max::run("min", ArgFold::Min, x, dim, keepdim)
}

/// By name: operand x; attributes dim (null: the value only, over all elements, of shape []) and
/// keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, keepdim) = (a.input("x")?, a.bool("keepdim")?);
    match a.maybe("dim", Args::dim)? {
        None => Ok(vec![amax::run("min", fold::Min, x, None, false)?]),
        Some(dim) => min(x, dim, keepdim).map(|(v, i)| vec![v, i]),
    }
}
