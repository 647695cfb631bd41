//! matrix_exp: the exponentials of matrices.

use super::linalg::exponential::MatrixExp;
use super::linalg::{batched, check_floats, check_square, matrices, sizes};
use crate::prelude::*;

/// The sum over k of `x`^k / k!, for the matrices of `x`, by scaling and squaring. NaN for those
/// whose columns have a sum of magnitudes above 2^16. Storage floats run in f32 and are rounded
/// once.
///
/// x: [.., n, n]   result: [.., n, n]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn matrix_exp<V: Value>(x: &V) -> Result<V> {
    check_floats("matrix_exp", x)?;
    widen([x], |[x]| {
        check_square("matrix_exp", x)?;
        if x.shape().numel() == 0 {
            return Ok(x.clone());
        }
        batched(&V::apply(MatrixExp, &[&matrices(x)?])?, &sizes(x).0)
    })
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![matrix_exp(a.input("x")?)?])
}
