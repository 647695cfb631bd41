//! pinv: the pseudoinverses of matrices.

use super::linalg::pseudo::{Pinv, Reciprocal};
use super::linalg::{batched, check, check_floats, check_square, matrices, shape, sizes};
use super::view;
use crate::prelude::*;

/// The pseudoinverses of the matrices of `x`, by singular values; those that are not above the
/// larger of `atol` and `rtol` times the largest count for 0. Without `rtol` it is 0 if there is an
/// `atol` above 0, else the larger size times the distance from 1 to the next number. With
/// `hermitian` by eigenvalues, whose magnitudes are compared. Storage floats run in f32 and are
/// rounded once.
///
/// x: [.., m, n]   result: [.., n, m]
///
/// # Errors
/// `ShapeMismatch` if x is no matrix, or not square and `hermitian`; `DTypeMismatch` if it is not
/// of floats; `OutOfMemory`.
pub fn pinv<V: Value>(x: &V, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<V> {
    check_floats("pinv", x)?;
    widen([x], |[x]| of_wide(x, atol, rtol, hermitian))
}

/// The pseudoinverses of matrices of f32 or f64.
fn of_wide<V: Value>(x: &V, atol: Option<f64>, rtol: Option<f64>, hermitian: bool) -> Result<V> {
    check("pinv", x)?;
    let (lead, [m, n]) = sizes(x);
    if hermitian {
        check_square("pinv", x)?;
    }
    let eps = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let plain = if atol.is_some_and(|a| a > 0.0) { 0.0 } else { m.max(n) as f64 * eps };
    let bound = Reciprocal { atol: atol.unwrap_or(0.0), rtol: rtol.unwrap_or(plain) };
    if x.shape().numel() == 0 {
        return view::full(x, &shape(&lead, &[n, m])?, Scalar::Int(0));
    }
    batched(&V::apply(Pinv { bound, hermitian }, &[&matrices(x)?])?, &lead)
}

/// By name: operand x; attributes atol, rtol and hermitian (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (atol, rtol) = (a.maybe("atol", Args::f64)?, a.maybe("rtol", Args::f64)?);
    Ok(vec![pinv(a.input("x")?, atol, rtol, super::linalg::flag(a, "hermitian", false)?)?])
}
