//! argmax: the index of the largest element; of the first one among equals, of the first NaN if
//! there is any.

use super::{flatten, sum};
use crate::prelude::*;
use crate::rows::rows_last;

/// The index (i64) of an element along `dim`, or in the flattened tensor.
///
/// # Errors
/// As [`argmax`].
pub(super) fn run<V: Value>(op: &str, f: ArgFold, x: &V, dim: Option<isize>, keepdim: bool) -> Result<V> {
    let axes = match dim {
        None => sum::axes(op, x.shape(), None)?,
        Some(dim) => sum::axes(op, x.shape(), Some(&[dim]))?,
    };
    sum::not_empty(op, x.shape(), &axes)?;
    // Without an axis the index counts through the flattened tensor; it needs no gradient.
    let line = if dim.is_none() { flatten::all(x.array())? } else { x.array().clone() };
    let row: &[usize] = if dim.is_none() { &[0] } else { &axes };
    let layout = line.layout().permute(&rows_last(line.shape(), row));
    let buffer = <V::B as Compute>::arg_fold(x.device(), f, line.view_as(&layout), line.shape().rank() - row.len())?;
    let y = Array::new(x.device(), buffer, x.shape().without(&axes, keepdim), DType::I64);
    Ok(V::from_array(y))
}

/// The index (i64) of the largest element of `x` along `dim`, or in the flattened tensor. The first
/// among equals; the first NaN, if there is one. No gradient.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn argmax<V: Value>(x: &V, dim: Option<isize>, keepdim: bool) -> Result<V> {
    run("argmax", ArgFold::Max, x, dim, keepdim)
}

/// By name: operand x; attributes dim (null: the flattened tensor) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![argmax(a.input("x")?, a.maybe("dim", Args::dim)?, a.bool("keepdim")?)?])
}
