//! eigh: eigenvalues and eigenvectors of symmetric matrices.

use super::linalg::eigh::Eigh;
use super::linalg::{batched, check_square, matrices, shape, sizes};
use super::view;
use crate::prelude::*;

/// (L, V): the eigenvalues of symmetric matrices `x`, ascending, and eigenvectors as columns. Only
/// the lower triangle is read, or the `upper` one. Of each vector the element of largest magnitude,
/// the first among equals, is positive.
///
/// x: [.., n, n]   L: [.., n]   V: [.., n, n]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of f32 or f64;
/// `OutOfMemory`.
pub fn eigh<V: Value>(x: &V, upper: bool) -> Result<(V, V)> {
    autocast!("eigh", x => eigh(x, upper));
    run("eigh", x, upper)
}

/// As [`eigh`], for the op of this name.
///
/// # Errors
/// As [`eigh`].
pub(super) fn run<V: Value>(op: &str, x: &V, upper: bool) -> Result<(V, V)> {
    let n = check_square(op, x)?;
    let (lead, _) = sizes(x);
    if x.shape().numel() == 0 {
        return Ok((view::full(x, &shape(&lead, &[n])?, Scalar::Int(0))?, x.clone()));
    }
    let all = V::apply_many(Eigh { upper }, &[&matrices(x)?])?;
    Ok((batched(&all[0], &lead)?, batched(&all[1], &lead)?))
}

/// Does the attribute UPLO (absent: L) name the upper triangle?
///
/// # Errors
/// `InvalidArgument` if it is neither L nor U.
pub(super) fn upper<V: Value>(a: &Args<V>) -> Result<bool> {
    match a.maybe("UPLO", Args::str)? {
        None | Some("L" | "l") => Ok(false),
        Some("U" | "u") => Ok(true),
        Some(other) => Err(Error::argument(format!("{}: UPLO {other}; there are L and U", a.op))),
    }
}

/// By name: operand x; attribute UPLO (absent: L).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (values, vectors) = eigh(a.input("x")?, upper(a)?)?;
    Ok(vec![values, vectors])
}
