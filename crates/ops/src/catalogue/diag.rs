//! diag: the diagonal of a matrix, or the matrix that has a vector as its diagonal.

use super::diagonal;
use super::view::{self, Part};
use crate::prelude::*;

/// For a matrix `x` the diagonal `offset` above the main one, as a view; for a vector the square
/// matrix that has it as that diagonal and 0 elsewhere.
///
/// # Errors
/// `ShapeMismatch` if x is neither; `OutOfMemory`.
pub fn diag<V: Value>(x: &V, offset: isize) -> Result<V> {
    match x.shape()[..] {
        [_, _] => diagonal(x, offset, 0, 1),
        [n] => {
            let side = n.checked_add(offset.unsigned_abs()).ok_or_else(|| {
                Error::memory(format!("diag: an offset of {offset} is more than can be addressed"))
            })?;
            view::place(x, &Shape::new(&[side, side])?, Part::Diagonal { offset, a: 0, b: 1 })
        }
        _ => Err(Error::shape(format!("diag: shape {}; it must be a vector or a matrix", x.shape()))),
    }
}

/// By name: operand x; attribute diagonal.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![diag(a.input("x")?, a.dim("diagonal")?)?])
}
