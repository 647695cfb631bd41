//! solve: the solution of a system of linear equations.

use super::linalg::lu::solved_by;
use super::linalg::{self, batched, check, check_dtype, check_square, sizes, together, turned};
use super::{squeeze, unsqueeze};
use crate::prelude::*;

/// X of `x` X = `y`, or X `x` = `y` without `left`, by LU factors with partial pivoting. A singular
/// matrix gives infinities and NaN. Batches broadcast.
///
/// x: [.., n, n]   y: [.., n, k], or [.., k, n] without `left`; or vectors: \[n\], or the shape of
/// x without its last axis   result: as y
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` for vectors without `left`; `DTypeMismatch` if operands are
/// not both of f32 or of f64; `DeviceMismatch`; `OutOfMemory`.
pub fn solve<V: Value>(x: &V, y: &V, left: bool) -> Result<V> {
    autocast!("solve", x, y => solve(x, y, left));
    let n = check_square("solve", x)?;
    check_dtype("solve", y)?;
    linalg::check_pair("solve", x, y)?;
    let rank = x.shape().rank();
    if y.shape().rank() == 1 || y.shape()[..] == x.shape()[..rank - 1] {
        if !left {
            return Err(Error::argument("solve: right-hand sides are vectors; they can only be on the right"));
        }
        return squeeze(&solve(x, &unsqueeze(y, -1)?, true)?, Some(&[-1]));
    }
    check("solve", y)?;
    let (_, [rows, columns]) = sizes(y);
    if n != if left { rows } else { columns } {
        return Err(Error::shape(format!(
            "solve: matrices {} and right-hand sides {}; {n} and {} must be equal",
            x.shape(),
            y.shape(),
            if left { rows } else { columns }
        )));
    }
    let (a, b, lead) = together("solve", x, y)?;
    if left {
        return batched(&solved_by(&a, &b)?, &lead);
    }
    batched(&turned(&solved_by(&turned(&a)?, &turned(&b)?)?)?, &lead)
}

/// By name: operands x and y; attribute left (absent: true).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![solve(a.input("x")?, a.input("y")?, linalg::flag(a, "left", true)?)?])
}
