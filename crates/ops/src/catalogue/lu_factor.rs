//! lu_factor: the LU factors of matrices, packed.

use super::linalg::lu::LuFactor;
use super::linalg::{self, batched, check, matrices, sizes};
use crate::prelude::*;

/// (LU, pivots): L below the diagonal, with ones on its own, and U on and above it; and with which
/// row (i32, from 1) each row was exchanged, in turn. The pivot of a column is its element of
/// largest magnitude, the first among equals; one of 0 stays, with zeros below it. Without `pivot`
/// rows stay where they are, and what is below a pivot of 0 becomes infinite if it is not 0.
///
/// x: [.., m, n]   LU: [.., m, n]   pivots: [.., min(m, n)]
///
/// # Errors
/// `ShapeMismatch` if x is no matrix; `DTypeMismatch` if it is not of f32 or f64; `OutOfMemory`.
pub fn lu_factor<V: Value>(x: &V, pivot: bool) -> Result<(V, V)> {
    autocast!("lu_factor", x => lu_factor(x, pivot));
    let [lu, pivots, _] = run("lu_factor", x, pivot)?;
    Ok((lu, pivots))
}

/// (LU, pivots, order of rows [.., m]), for the op of this name.
///
/// # Errors
/// As [`lu_factor`].
pub(super) fn run<V: Value>(op: &str, x: &V, pivot: bool) -> Result<[V; 3]> {
    check(op, x)?;
    let (lead, [m, n]) = sizes(x);
    let all = if x.shape().numel() == 0 {
        let numbers = |shape: &[usize], dtype| {
            let shape = linalg::shape(&lead, shape)?;
            Ok::<_, Error>(V::from_array(Array::full(x.device(), &shape, Scalar::Int(0), dtype)?))
        };
        let order = crate::catalogue::view::numbers(x, m, 0..m as i64)?;
        let order = crate::catalogue::expand(&order, &linalg::shape(&lead, &[m])?)?;
        return Ok([x.clone(), numbers(&[m.min(n)], DType::I32)?, order]);
    } else {
        V::apply_many(LuFactor { pivot }, &[&matrices(x)?])?
    };
    let all = all.iter().map(|v| batched(v, &lead)).collect::<Result<Vec<V>>>()?;
    Ok(all.try_into().expect("three results"))
}

/// By name: operand x; attribute pivot (absent: true).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (lu, pivots) = lu_factor(a.input("x")?, linalg::flag(a, "pivot", true)?)?;
    Ok(vec![lu, pivots])
}
