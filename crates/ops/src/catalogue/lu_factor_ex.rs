//! lu_factor_ex: the factors of lu_factor, and which matrices are singular.

use super::linalg::{self, info};
use super::lu_factor::{check_pivot, run};
use super::{diagonal, eq};
use crate::prelude::*;

/// (LU, pivots) of [`lu_factor`](fn@super::lu_factor), and for each matrix (i32) 0, or the number,
/// from 1, of the first pivot that is 0.
///
/// # Errors
/// As [`lu_factor`](fn@super::lu_factor).
pub fn lu_factor_ex<V: Value>(x: &V) -> Result<(V, V, V)> {
    autocast!("lu_factor_ex", x => lu_factor_ex(x));
    let [lu, pivots, _] = run("lu_factor_ex", x)?;
    let diagonal = diagonal(&lu.detached(), 0, -2, -1)?;
    let info = info(&eq(&diagonal, &diagonal.scalar_like(0.0)?)?)?;
    Ok((lu, pivots, info))
}

/// By name: operand x; attributes pivot (absent: true) and check_errors (absent: false); they can
/// be nothing else.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    check_pivot(a)?;
    linalg::no_errors(a)?;
    let (lu, pivots, info) = lu_factor_ex(a.input("x")?)?;
    Ok(vec![lu, pivots, info])
}
