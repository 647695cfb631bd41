//! masked_select: the elements where a mask is true. The size of the result depends on the mask, so
//! this synchronises with the device.

use super::{flatten, index_select, nonzero};
use crate::prelude::*;
use crate::value::broadcast;

/// The elements of `x` where `mask` (bool) is true, as a vector in row-major order; the two
/// broadcast.
///
/// # Errors
/// `DTypeMismatch` if the mask is not bool; `ShapeMismatch` if they do not broadcast;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn masked_select<V: Value>(x: &V, mask: &V) -> Result<V> {
    if mask.dtype() != DType::Bool {
        return Err(Error::dtype(format!("masked_select: the mask is {}; it must be bool", mask.dtype())));
    }
    let shape = x.shape().broadcast(mask.shape(), "masked_select")?;
    let at = nonzero::numbers(&broadcast(mask, &shape)?)?;
    index_select(&flatten::all(&broadcast(x, &shape)?)?, 0, &at)
}

/// By name: operands x and mask.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![masked_select(a.input("x")?, a.input("mask")?)?])
}
