//! unravel_index: the coordinates of row-major positions. No gradient.

use super::gather::{as_index, wrap};
use super::{floor_divide, remainder};
use crate::prelude::*;

/// For each axis of `shape` the index (i64) along it of the row-major positions in `index`, which
/// may count from the end. Positions are not checked.
///
/// # Errors
/// `DTypeMismatch` if the index is not of integers; `OutOfMemory`.
pub fn unravel_index<V: Value>(index: &V, shape: &[usize]) -> Result<Vec<V>> {
    let shape = Shape::new(shape)?;
    let at = wrap(&as_index("unravel_index", index)?, shape.numel())?;
    let layout = Layout::contiguous(shape.clone());
    let axes = layout.strides().iter().zip(shape.iter());
    axes.map(|(&stride, &n)| {
        let counted = floor_divide(&at, &at.scalar_like(stride as i64)?)?;
        remainder(&counted, &at.scalar_like(n)?)
    })
    .collect()
}

/// By name: operand index; attribute shape.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    unravel_index(a.input("index")?, &a.sizes("shape")?)
}
