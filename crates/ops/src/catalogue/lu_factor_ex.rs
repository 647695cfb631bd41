//! lu_factor_ex: the factors of lu_factor, and which matrices are singular.

use super::linalg::{self, info};
use super::lu_factor::run;
use super::{diagonal, eq};
use crate::prelude::*;

/// (LU, pivots) of [`lu_factor`](fn@super::lu_factor), and for each matrix (i32) 0, or the number,
/// from 1, of the first pivot that is 0.
///
/// # Errors
/// As [`lu_factor`](fn@super::lu_factor).
pub fn lu_factor_ex<V: Value>(x: &V, pivot: bool) -> Result<(V, V, V)> {
    autocast!("lu_factor_ex", x => lu_factor_ex(x, pivot));
    let [lu, pivots, _] = run("lu_factor_ex", x, pivot)?;
    let diagonal = diagonal(&lu.detached(), 0, -2, -1)?;
    let info = info(&eq(&diagonal, &diagonal.scalar_like(0.0)?)?)?;
    Ok((lu, pivots, info))
}

/// By name: operand x; attributes pivot (absent: true) and check_errors (absent: false; it can be
/// nothing else).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::no_errors(a)?;
    let (lu, pivots, info) = lu_factor_ex(a.input("x")?, linalg::flag(a, "pivot", true)?)?;
    Ok(vec![lu, pivots, info])
}
