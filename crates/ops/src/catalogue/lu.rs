//! lu: matrices as products of a permutation, a lower and an upper triangle.

use super::linalg::{flag, sizes, units};
use super::lu_factor::run;
use super::{add, eq, narrow, tril, triu, unsqueeze, view};
use crate::prelude::*;
use crate::value::cast;

/// (P, L, U) with `x` = P L U, the factors of [`lu_factor`](fn@super::lu_factor). Without `pivot` P
/// is empty, \[0\], and `x` = L U.
///
/// x: [.., m, n]   P: [.., m, m]   L: [.., m, k]   U: [.., k, n], k = min(m, n)
///
/// # Errors
/// `ShapeMismatch` if x is no matrix; `DTypeMismatch` if it is not of f32 or f64; `OutOfMemory`.
pub fn lu<V: Value>(x: &V, pivot: bool) -> Result<(V, V, V)> {
    autocast!("lu", x => lu(x, pivot));
    let [packed, _, order] = run("lu", x, pivot)?;
    let (lead, [m, n]) = sizes(x);
    let k = m.min(n);
    let p = if pivot {
        let row = unsqueeze(&view::numbers(x, m, 0..m as i64)?, -1)?;
        cast(&eq(&unsqueeze(&order, -2)?, &row)?, x.dtype())?
    } else {
        view::full(x, &Shape::new(&[0])?, Scalar::Int(0))?
    };
    let ones = units(x, &lead, m, k)?;
    let l = add(&tril(&narrow(&packed, -1, 0, k)?, -1)?, &ones)?;
    Ok((p, l, triu(&narrow(&packed, -2, 0, k)?, 0)?))
}

/// By name: operand x; attribute pivot (absent: true).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (p, l, u) = lu(a.input("x")?, flag(a, "pivot", true)?)?;
    Ok(vec![p, l, u])
}
