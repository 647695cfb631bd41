//! diagonal: the elements of two axes whose indices differ by a fixed offset. A view.

use super::view::{self, Part};
use crate::prelude::*;

/// The diagonal of axes `dim1` (rows) and `dim2` (columns), `offset` above the main one; it becomes
/// the last axis, and the two go away. A view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or both are the same.
pub fn diagonal<V: Value>(x: &V, offset: isize, dim1: isize, dim2: isize) -> Result<V> {
    let shape = x.shape();
    if shape.rank() < 2 {
        return Err(Error::argument(format!("diagonal: shape {shape} has no two axes")));
    }
    let (a, b) = (shape.axis("diagonal", dim1)?, shape.axis("diagonal", dim2)?);
    if a == b {
        return Err(Error::argument(format!(
            "diagonal: axes {dim1} and {dim2} of shape {shape} are the same; they must differ"
        )));
    }
    // Beyond the matrix all offsets are equivalent, and these cannot overflow.
    let offset = offset.clamp(-(shape[a] as isize), shape[b] as isize);
    view::take(x, Part::Diagonal { offset, a, b })
}

/// By name: operand x; attributes offset, dim1 and dim2.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![diagonal(a.input("x")?, a.dim("offset")?, a.dim("dim1")?, a.dim("dim2")?)?])
}
