//! put: elements written or added at row-major positions of a tensor. Where a position repeats, the
//! last source stays, or sources add one by one, in order.

use super::gather::{as_index, wrap};
use super::{flatten, reshape, scatter};
use crate::prelude::*;

/// A copy of `x` in which the elements at the row-major positions in `index`, which may count from
/// the end, are those of `source`, which has as many; or, if `accumulate`, to which they are added.
///
/// # Errors
/// `InvalidArgument` if a position does not exist; `ShapeMismatch` if the numbers of elements
/// differ; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn put<V: Value>(x: &V, index: &V, source: &V, accumulate: bool) -> Result<V> {
    let n = index.shape().numel();
    if source.shape().numel() != n {
        return Err(Error::shape(format!(
            "put: {n} positions for a source of shape {}; it must have as many elements",
            source.shape()
        )));
    }
    let flat = flatten::all(x)?;
    let at = wrap(&flatten::all(&as_index("put", index)?)?, x.shape().numel())?;
    let how = if accumulate { Scatter::Add } else { Scatter::Set };
    let y = scatter::run("put", how, &flat, 0, &at, &flatten::all(source)?)?;
    reshape::to_shape(&y, x.shape())
}

/// By name: operands x, index and source; attribute accumulate (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let accumulate = a.maybe("accumulate", Args::bool)?.unwrap_or(false);
    Ok(vec![put(a.input("x")?, a.input("index")?, a.input("source")?, accumulate)?])
}
