//! solve_triangular: the solution of a system with a triangular matrix.

use super::linalg::triangular::{solved, solved_right};
use super::linalg::{self, batched, check, check_square, sizes, together};
use crate::prelude::*;

/// X of `x` X = `y`, or X `x` = `y` without `left`, where the upper or lower triangle of `x` is
/// read, and its diagonal is taken for ones if `unitriangular`. Batches broadcast. A zero on the
/// diagonal gives infinities and NaN.
///
/// x: [.., n, n]   y: [.., n, k], or [.., k, n] without `left`   result: as y
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if operands are not both of f32 or of f64; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn solve_triangular<V: Value>(x: &V, y: &V, upper: bool, left: bool, unitriangular: bool) -> Result<V> {
    autocast!("solve_triangular", x, y => solve_triangular(x, y, upper, left, unitriangular));
    let n = check_square("solve_triangular", x)?;
    check("solve_triangular", y)?;
    linalg::check_pair("solve_triangular", x, y)?;
    let (_, [rows, columns]) = sizes(y);
    if n != if left { rows } else { columns } {
        return Err(Error::shape(format!(
            "solve_triangular: matrices {} and right-hand sides {}; {n} and {} must be equal",
            x.shape(),
            y.shape(),
            if left { rows } else { columns }
        )));
    }
    let (a, b, lead) = together("solve_triangular", x, y)?;
    if b.shape().numel() == 0 {
        return batched(&b, &lead);
    }
    let solution = if left {
        solved(&a, &b, upper, unitriangular)?
    } else {
        solved_right(&a, &b, upper, unitriangular)?
    };
    batched(&solution, &lead)
}

/// By name: operands x and y; attributes upper, left (absent: true) and unitriangular (absent:
/// false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (left, unit) = (linalg::flag(a, "left", true)?, linalg::flag(a, "unitriangular", false)?);
    Ok(vec![solve_triangular(a.input("x")?, a.input("y")?, a.bool("upper")?, left, unit)?])
}
