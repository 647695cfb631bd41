//! masked_scatter: the elements where a mask is true replaced, one after the other, by those of a
//! source. How many there are depends on the mask, so this synchronises with the device.

use super::where_::check_bool;
use super::{flatten, narrow, nonzero, reshape, scatter, view};
use crate::prelude::*;
use crate::value::broadcast;

/// A copy of `x` whose elements where `mask` (bool) is true are, in row-major order, the first of
/// `source`; `x` and the mask broadcast.
///
/// # Errors
/// `DTypeMismatch` if the mask is not bool or `source` is not of the dtype of `x`; `ShapeMismatch`
/// if they do not broadcast; `InvalidArgument` if the source has too few elements;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn masked_scatter<V: Value>(x: &V, mask: &V, source: &V) -> Result<V> {
    check_bool("masked_scatter", "the mask", mask)?;
    view::same_dtype("masked_scatter", &[x, source])?;
    let shape = x.shape().broadcast(mask.shape(), "masked_scatter")?;
    let at = nonzero::numbers(&broadcast(mask, &shape)?)?;
    let n = at.shape().numel();
    if source.shape().numel() < n {
        return Err(Error::argument(format!(
            "masked_scatter: a source of shape {} for {n} elements of the mask; it must have as many at least",
            source.shape()
        )));
    }
    let src = narrow::run(&flatten::all(source)?, 0, 0, n)?;
    let y = scatter::run("masked_scatter", Scatter::Set, &flatten::all(&broadcast(x, &shape)?)?, 0, &at, &src)?;
    reshape::to_shape(&y, &shape)
}

/// By name: operands x, mask and source.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![masked_scatter(a.input("x")?, a.input("mask")?, a.input("source")?)?])
}
