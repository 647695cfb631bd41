//! amin: the smallest element. NaN wins; -0 is smaller than +0. Equal elements share the gradient.

use super::amax;
use crate::fold;
use crate::prelude::*;

/// The smallest element over `dims` (all axes if `None` or empty). NaN wins. Equal elements share
/// the gradient equally.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn amin<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    amax::run("amin", fold::Min, x, dims, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![amin(a.input("x")?, dims.as_deref(), a.bool("keepdim")?)?])
}
