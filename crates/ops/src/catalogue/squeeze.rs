//! squeeze: axes of size 1 dropped. A view.

use super::sum;
use crate::prelude::*;

/// `x` without those of `dims` (all axes if `None`) that have size 1; the others stay. A view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or one is named twice.
pub fn squeeze<V: Value>(x: &V, dims: Option<&[isize]>) -> Result<V> {
    let shape = x.shape();
    let mut axes: Dims = match dims {
        None => (0..shape.rank()).collect(),
        Some(dims) => shape.axes("squeeze", dims)?,
    };
    axes.retain(|a| shape.get(*a) == Some(&1));
    sum::drop_axes(x.clone(), &axes, false)
}

/// By name: operand x; attribute dim (null, an axis or a list).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![squeeze(a.input("x")?, dims.as_deref())?])
}
