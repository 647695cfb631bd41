//! slogdet: the signs of determinants, and the logarithms of their magnitudes.

use super::linalg::determinant::{self, Determinant};
use crate::prelude::*;

/// (sign, logabsdet) of the determinants of the matrices of `x`, by LU factors with partial
/// pivoting: (0, -inf) of a singular one. The sign has no gradient.
///
/// x: [.., n, n]   results: [..]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of f32 or f64;
/// `OutOfMemory`.
pub fn slogdet<V: Value>(x: &V) -> Result<(V, V)> {
    autocast!("slogdet", x => slogdet(x));
    let all = determinant::run("slogdet", x, Determinant { log: true })?;
    let [sign, log] = <[V; 2]>::try_from(all).expect("two results");
    Ok((sign, log))
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (sign, log) = slogdet(a.input("x")?)?;
    Ok(vec![sign, log])
}
