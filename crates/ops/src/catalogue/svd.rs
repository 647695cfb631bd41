//! svd: singular values and vectors.

use super::linalg::svd::Svd;
use super::linalg::{batched, check, matrices, shape, sizes, units};
use super::view;
use crate::prelude::*;

/// (U, S, V^T) with `x` = U diag(S) V^T, S descending. Of each pair of vectors the element of
/// largest magnitude of the right one, the first among equals, is positive.
///
/// x: [.., m, n]   U: [.., m, k]   S: [.., min(m, n)]   V^T: [.., k, n], k = min(m, n); with
/// `full_matrices` U and V^T are square, and only their first min(m, n) vectors have gradients
///
/// # Errors
/// `ShapeMismatch` if x is no matrix; `DTypeMismatch` if it is not of f32 or f64; `OutOfMemory`.
pub fn svd<V: Value>(x: &V, full_matrices: bool) -> Result<(V, V, V)> {
    autocast!("svd", x => svd(x, full_matrices));
    check("svd", x)?;
    let (lead, [m, n]) = sizes(x);
    let k = m.min(n);
    if x.shape().numel() == 0 {
        let (rows, columns) = if full_matrices { (m, n) } else { (k, k) };
        let s = view::full(x, &shape(&lead, &[k])?, Scalar::Int(0))?;
        return Ok((units(x, &lead, m, rows)?, s, units(x, &lead, columns, n)?));
    }
    let all = V::apply_many(Svd { full: full_matrices }, &[&matrices(x)?])?;
    let [u, s, vt] = [0, 1, 2].map(|i| batched(&all[i], &lead));
    Ok((u?, s?, vt?))
}

/// By name: operand x; attribute full_matrices (absent: true).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (u, s, vt) = svd(a.input("x")?, super::linalg::flag(a, "full_matrices", true)?)?;
    Ok(vec![u, s, vt])
}
