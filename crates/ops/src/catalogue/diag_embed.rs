//! diag_embed: matrices that have the rows of a tensor as their diagonals, and 0 elsewhere.

use super::movedim;
use super::view::{self, Part};
use crate::prelude::*;

/// Matrices, in axes `dim1` and `dim2` of the result, whose diagonals, `offset` above the main one,
/// are the rows of `x`.
///
/// # Errors
/// `ShapeMismatch` if x is a scalar; `InvalidArgument` if there are no such axes, or they are one;
/// `OutOfMemory`.
pub fn diag_embed<V: Value>(x: &V, offset: isize, dim1: isize, dim2: isize) -> Result<V> {
    let Some(&n) = x.shape().last() else {
        return Err(Error::shape("diag_embed: a scalar is no row; there must be an axis"));
    };
    let side = n.checked_add(offset.unsigned_abs()).ok_or_else(|| {
        Error::memory(format!("diag_embed: an offset of {offset} is more than can be addressed"))
    })?;
    let rank = x.shape().rank() + 1;
    let mut dims = Dims::from_slice(&x.shape()[..rank - 2]);
    dims.extend([side, side]);
    let shape = Shape::new(&dims)?;
    let axes = shape.axes("diag_embed", &[dim1, dim2])?;
    let y = view::place(x, &shape, Part::Diagonal { offset, a: rank - 2, b: rank - 1 })?;
    movedim(&y, &[rank as isize - 2, rank as isize - 1], &[axes[0] as isize, axes[1] as isize])
}

/// By name: operand x; attributes offset (absent: 0), dim1 (absent: -2) and dim2 (absent: -1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = |name, default| Ok::<_, Error>(a.maybe(name, Args::dim)?.unwrap_or(default));
    Ok(vec![diag_embed(a.input("x")?, dim("offset", 0)?, dim("dim1", -2)?, dim("dim2", -1)?)?])
}
