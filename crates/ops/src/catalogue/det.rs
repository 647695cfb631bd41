//! det: the determinants of matrices.

use super::linalg::determinant::{self, Determinant};
use crate::prelude::*;

/// The determinants of the matrices of `x`, by LU factors with partial pivoting.
///
/// x: [.., n, n]   result: [..]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of f32 or f64;
/// `OutOfMemory`.
pub fn det<V: Value>(x: &V) -> Result<V> {
    autocast!("det", x => det(x));
    let mut all = determinant::run("det", x, Determinant { log: false })?;
    Ok(all.swap_remove(0))
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![det(a.input("x")?)?])
}
