//! all: is no element zero? NaN is not zero. Empty: true.

use super::any;
use crate::fold;
use crate::prelude::*;

/// Is no element of `x` along `dims` (all axes if `None`) zero? bool. NaN is not zero. Empty: true.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn all<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    any::run("all", fold::Min, x, dims, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![all(a.input("x")?, dims.as_deref(), a.bool("keepdim")?)?])
}
