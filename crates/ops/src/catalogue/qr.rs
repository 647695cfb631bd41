//! qr: matrices as products of one with orthonormal columns and an upper triangle.

use super::linalg::householder::Qr;
use super::linalg::{batched, check, matrices, shape, sizes, units};
use super::view;
use crate::prelude::*;

/// Which parts of Q and R are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QrMode {
    /// min(m, n) columns of Q.
    #[default]
    Reduced,
    /// A square Q.
    Complete,
    /// R of the reduced form alone; Q is empty, \[0\].
    R,
}

/// (Q, R) with `x` = Q R, by Householder's reflections with the signs of LAPACK: an element of R on
/// the diagonal has the other sign than the element that was there before its reflection, and the
/// same if there was nothing to reflect.
///
/// x: [.., m, n]   Q: [.., m, k]   R: [.., k, n], k = min(m, n), or m if complete
///
/// # Errors
/// `ShapeMismatch` if x is no matrix; `DTypeMismatch` if it is not of f32 or f64; `OutOfMemory`.
/// Its gradient is an `Autograd` error for a complete Q with m > n.
pub fn qr<V: Value>(x: &V, mode: QrMode) -> Result<(V, V)> {
    autocast!("qr", x => qr(x, mode));
    check("qr", x)?;
    let (lead, [m, n]) = sizes(x);
    let k = if mode == QrMode::Complete { m } else { m.min(n) };
    let (q, r) = if x.shape().numel() == 0 {
        (units(x, &lead, m, k)?, view::full(x, &shape(&lead, &[k, n])?, Scalar::Int(0))?)
    } else {
        let all = V::apply_many(Qr { complete: mode == QrMode::Complete }, &[&matrices(x)?])?;
        (batched(&all[0], &lead)?, batched(&all[1], &lead)?)
    };
    match mode {
        QrMode::Reduced | QrMode::Complete => Ok((q, r)),
        QrMode::R => Ok((view::full(x, &Shape::new(&[0])?, Scalar::Int(0))?, r)),
    }
}

/// By name: operand x; attribute mode (absent: reduced).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let mode = match a.maybe("mode", Args::str)? {
        None | Some("reduced") => QrMode::Reduced,
        Some("complete") => QrMode::Complete,
        Some("r") => QrMode::R,
        Some(other) => {
            return Err(Error::argument(format!("qr: mode {other}; there are reduced, complete and r")));
        }
    };
    let (q, r) = qr(a.input("x")?, mode)?;
    Ok(vec![q, r])
}
