//! transpose: two axes swapped. A view.

use super::permute;
use crate::prelude::*;

/// `x` with axes `dim0` and `dim1` swapped. A view; a scalar stays as it is.
///
/// # Errors
/// `InvalidArgument` if there is no such axis.
pub fn transpose<V: Value>(x: &V, dim0: isize, dim1: isize) -> Result<V> {
    let a = x.shape().axis("transpose", dim0)?;
    let b = x.shape().axis("transpose", dim1)?;
    let mut axes: Dims = (0..x.shape().rank()).collect();
    if a != b {
        axes.swap(a, b);
    }
    permute::to_axes(x, &axes)
}

/// By name: operand x; attributes dim0 and dim1.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![transpose(a.input("x")?, a.dim("dim0")?, a.dim("dim1")?)?])
}
