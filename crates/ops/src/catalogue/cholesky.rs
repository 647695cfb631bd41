//! cholesky: the triangular factor of symmetric positive definite matrices.

use super::linalg::cholesky::Cholesky;
use super::linalg::{self, batched, check_square, matrices, sizes, turned};
use crate::prelude::*;

/// L with L L^T = `x`, of whose matrices only the lower triangle is read; with `upper` U = L^T,
/// from the upper triangle. From the first pivot on that is not positive, elements are NaN.
///
/// x: [.., n, n]   result: [.., n, n]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of f32 or f64;
/// `OutOfMemory`.
pub fn cholesky<V: Value>(x: &V, upper: bool) -> Result<V> {
    autocast!("cholesky", x => cholesky(x, upper));
    run("cholesky", x, upper)
}

/// As [`cholesky`], for the op of this name.
///
/// # Errors
/// As [`cholesky`].
pub(super) fn run<V: Value>(op: &str, x: &V, upper: bool) -> Result<V> {
    check_square(op, x)?;
    if x.shape().numel() == 0 {
        return Ok(x.clone());
    }
    let a = matrices(x)?;
    let a = if upper { turned(&a)? } else { a };
    let l = V::apply(Cholesky, &[&a])?;
    batched(&if upper { turned(&l)? } else { l }, &sizes(x).0)
}

/// By name: operand x; attribute upper (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cholesky(a.input("x")?, linalg::flag(a, "upper", false)?)?])
}
