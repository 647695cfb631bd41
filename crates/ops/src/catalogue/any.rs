//! any: is some element not zero? NaN is not zero. Empty: false.

use super::{cast, sum};
use crate::fold::{self, Folding};
use crate::prelude::*;

/// Folds the truth values of `x` over `dims`. An empty list names no axis here, unlike in a sum.
///
/// # Errors
/// As [`any`].
pub(super) fn run<V: Value>(
    op: &str,
    fold: impl Folding,
    x: &V,
    dims: Option<&[isize]>,
    keepdim: bool,
) -> Result<V> {
    let axes = match dims {
        Some([]) => Dims::new(),
        _ => sum::axes(op, x.shape(), dims)?,
    };
    let truth = cast(&x.detached(), DType::Bool)?;
    sum::drop_axes(V::from_array(sum::fold(fold, truth.array(), &axes)?), &axes, keepdim)
}

/// Is some element of `x` along `dims` (all axes if `None`) not zero? bool. NaN is not zero. Empty:
/// false.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn any<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    run("any", fold::Max, x, dims, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![any(a.input("x")?, dims.as_deref(), a.bool("keepdim")?)?])
}
