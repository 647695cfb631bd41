//! argmin: the index of the smallest element; of the first one among equals, of the first NaN if
//! there is any.

use super::argmax;
use crate::prelude::*;

/// The index (i64) of the smallest element of `x` along `dim`, or in the flattened tensor. The
/// first among equals; the first NaN, if there is one. No gradient.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn argmin<V: Value>(x: &V, dim: Option<isize>, keepdim: bool) -> Result<V> {
    argmax::run("argmin", ArgFold::Min, x, dim, keepdim)
}

/// By name: operand x; attributes dim (null: the flattened tensor) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![argmin(a.input("x")?, a.maybe("dim", Args::dim)?, a.bool("keepdim")?)?])
}
