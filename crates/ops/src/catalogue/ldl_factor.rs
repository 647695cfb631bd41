//! ldl_factor: the LDL factors of symmetric matrices.

use super::linalg::ldl::LdlFactor;
use super::linalg::{self, batched, check_square, matrices, sizes};
use crate::prelude::*;

/// (LD, pivots) of symmetric matrices, of which the lower triangle is read: L below the diagonal,
/// with ones on its own, and D, whose blocks are of 1 x 1 and 2 x 2, by LAPACK's sytrf (Bunch and
/// Kaufman). A pivot (i32) is the row, from 1, that was exchanged; both rows of a block of 2 x 2
/// have it negative.
///
/// x: [.., n, n]   LD: [.., n, n]   pivots: [.., n]
///
/// # Errors
/// `ShapeMismatch` if matrices are not square; `DTypeMismatch` if x is not of f32 or f64;
/// `OutOfMemory`. Its gradient is an `Autograd` error.
pub fn ldl_factor<V: Value>(x: &V) -> Result<(V, V)> {
    autocast!("ldl_factor", x => ldl_factor(x));
    run("ldl_factor", x)
}

/// As [`ldl_factor`], for the op of this name.
///
/// # Errors
/// As [`ldl_factor`].
pub(super) fn run<V: Value>(op: &str, x: &V) -> Result<(V, V)> {
    let n = check_square(op, x)?;
    let (lead, _) = sizes(x);
    if x.shape().numel() == 0 {
        let none = Array::full(x.device(), &linalg::shape(&lead, &[n])?, Scalar::Int(0), DType::I32)?;
        return Ok((x.clone(), V::from_array(none)));
    }
    let all = V::apply_many(LdlFactor, &[&matrices(x)?])?;
    Ok((batched(&all[0], &lead)?, batched(&all[1], &lead)?))
}

/// By name: operand x; attribute hermitian (absent: false), which makes no difference to real
/// matrices.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::flag(a, "hermitian", false)?;
    let (ld, pivots) = ldl_factor(a.input("x")?)?;
    Ok(vec![ld, pivots])
}
