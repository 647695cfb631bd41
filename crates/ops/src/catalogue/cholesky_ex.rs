//! cholesky_ex: the factors of cholesky, and which matrices have one.

use super::linalg::{self, info};
use super::{cholesky, diagonal, gt, logical_not};
use crate::prelude::*;

/// The factors of [`cholesky`](fn@super::cholesky), and for each matrix (i32) 0, or the number,
/// from 1, of the first pivot that is not positive.
///
/// # Errors
/// As [`cholesky`](fn@super::cholesky).
pub fn cholesky_ex<V: Value>(x: &V, upper: bool) -> Result<(V, V)> {
    autocast!("cholesky_ex", x => cholesky_ex(x, upper));
    let l = cholesky::run("cholesky_ex", x, upper)?;
    let pivots = diagonal(&l.detached(), 0, -2, -1)?;
    let refused = logical_not(&gt(&pivots, &pivots.scalar_like(0.0)?)?)?;
    Ok((l, info(&refused)?))
}

/// By name: operand x; attributes upper and check_errors (both absent: false; the second can be
/// nothing else).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::no_errors(a)?;
    let (l, info) = cholesky_ex(a.input("x")?, linalg::flag(a, "upper", false)?)?;
    Ok(vec![l, info])
}
