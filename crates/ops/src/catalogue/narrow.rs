//! narrow: a range of indices of one axis. A view.

use super::slice::{self, Run};
use crate::prelude::*;

/// `length` elements of axis `dim` from `start` on, which may count from the end. A view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or the range leaves it.
pub fn narrow<V: Value>(x: &V, dim: isize, start: isize, length: usize) -> Result<V> {
    let shape = x.shape();
    if shape.rank() == 0 {
        return Err(Error::argument("narrow: a scalar has no axis to narrow"));
    }
    let axis = shape.axis("narrow", dim)?;
    let n = shape[axis];
    let from = if start < 0 { start.saturating_add_unsigned(n) } else { start };
    match usize::try_from(from) {
        Ok(from) if from.checked_add(length).is_some_and(|end| end <= n) => run(x, axis, from, length),
        _ => Err(Error::argument(format!(
            "narrow: {length} elements from {start} on leave axis {axis} of shape {shape}"
        ))),
    }
}

/// `length` elements of `axis` from `start` on. The caller ensures that they exist.
///
/// # Errors
/// None of its own.
pub(super) fn run<V: Value>(x: &V, axis: usize, start: usize, length: usize) -> Result<V> {
    let mut runs: Vec<Run> = x.shape()[..=axis].iter().map(|&n| Run::all(n)).collect();
    runs[axis] = Run { start, len: length, step: 1 };
    slice::runs(x, &runs)
}

/// By name: operand x; attributes dim, start and length.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![narrow(a.input("x")?, a.dim("dim")?, a.dim("start")?, a.size("length")?)?])
}
