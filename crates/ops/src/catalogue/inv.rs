//! inv: the inverses of matrices.

use super::expand;
use super::linalg::lu::solved_by;
use super::linalg::{batched, check_square, eye, matrices, sizes};
use crate::prelude::*;

/// The inverses of the matrices of `x`, by LU factors with partial pivoting. A singular matrix
/// gives infinities and NaN.
///
/// x: [.., n, n]   result: [.., n, n]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of f32 or f64;
/// `OutOfMemory`.
pub fn inv<V: Value>(x: &V) -> Result<V> {
    autocast!("inv", x => inv(x));
    run("inv", x)
}

/// As [`inv`], for the op of this name.
///
/// # Errors
/// As [`inv`].
pub(super) fn run<V: Value>(op: &str, x: &V) -> Result<V> {
    let n = check_square(op, x)?;
    let a = matrices(x)?;
    let ones = expand(&eye(&a, n, n)?, a.shape())?;
    batched(&solved_by(&a, &ones)?, &sizes(x).0)
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![inv(a.input("x")?)?])
}
