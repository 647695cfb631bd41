//! ldl_factor_ex: the factors of ldl_factor, and which matrices are singular.

use super::linalg::{self, info};
use super::{diagonal, eq, gt, ldl_factor, logical_and};
use crate::prelude::*;

/// (LD, pivots) of [`ldl_factor`](fn@super::ldl_factor), and for each matrix (i32) 0, or the
/// number, from 1, of the first block of D that is a 0.
///
/// # Errors
/// As [`ldl_factor`](fn@super::ldl_factor).
pub fn ldl_factor_ex<V: Value>(x: &V) -> Result<(V, V, V)> {
    autocast!("ldl_factor_ex", x => ldl_factor_ex(x));
    let (ld, pivots) = ldl_factor::run("ldl_factor_ex", x)?;
    let diagonal = diagonal(&ld.detached(), 0, -2, -1)?;
    let zero = eq(&diagonal, &diagonal.scalar_like(0.0)?)?;
    let single = gt(&pivots, &pivots.scalar_like(0i64)?)?;
    let info = info(&logical_and(&zero, &single)?)?;
    Ok((ld, pivots, info))
}

/// By name: operand x; attributes hermitian (absent: false), which makes no difference to real
/// matrices, and check_errors (absent: false; it can be nothing else).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::no_errors(a)?;
    linalg::flag(a, "hermitian", false)?;
    let (ld, pivots, info) = ldl_factor_ex(a.input("x")?)?;
    Ok(vec![ld, pivots, info])
}
