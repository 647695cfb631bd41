//! select: one index of an axis; the axis is dropped. A view.

use super::view::{self, Part};
use crate::prelude::*;

/// The elements of `x` at `index` of axis `dim`, without that axis. Both may count from the end. A
/// view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or index.
pub fn select<V: Value>(x: &V, dim: isize, index: isize) -> Result<V> {
    let shape = x.shape();
    if shape.rank() == 0 {
        return Err(Error::argument("select: a scalar has no axis to select from"));
    }
    let axis = shape.axis("select", dim)?;
    let n = shape[axis];
    let at = if index < 0 { index.saturating_add_unsigned(n) } else { index };
    match usize::try_from(at) {
        Ok(at) if at < n => view::take(x, Part::Select { axis, index: at }),
        _ => Err(Error::argument(format!(
            "select: index {index} does not exist in axis {axis} of shape {shape}; it must be in -{n}..{n}"
        ))),
    }
}

/// By name: operand x; attributes dim and index.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![select(a.input("x")?, a.dim("dim")?, a.dim("index")?)?])
}
