//! inv_ex: the inverses of matrices, and which of them have one.

use super::linalg;
use super::{inv, lu_factor_ex};
use crate::prelude::*;

/// The inverses of [`inv`](fn@super::inv), and for each matrix (i32) 0, or the number, from 1, of
/// the first pivot that is 0.
///
/// # Errors
/// As [`inv`](fn@super::inv).
pub fn inv_ex<V: Value>(x: &V) -> Result<(V, V)> {
    autocast!("inv_ex", x => inv_ex(x));
    let inverse = inv::run("inv_ex", x)?;
    let (_, _, info) = lu_factor_ex(&x.detached(), true)?;
    Ok((inverse, info))
}

/// By name: operand x; attribute check_errors (absent: false; it can be nothing else).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::no_errors(a)?;
    let (inverse, info) = inv_ex(a.input("x")?)?;
    Ok(vec![inverse, info])
}
