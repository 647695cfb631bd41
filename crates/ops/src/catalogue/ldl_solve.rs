//! ldl_solve: the solution of a system of which the LDL factors are known.

use super::linalg::lu::ordered;
use super::linalg::triangular::solved;
use super::linalg::{self, batched, check, check_square, exchanges, sizes, together, turned};
use super::{abs, add, argsort, cumsum, diagonal, div::div, eq, expand, gather, logical_and, lt, mul, ne};
use super::pad::{Mode, pad};
use super::{lu_solve, remainder, reshape, sub, unsqueeze, view, where_};
use crate::prelude::*;
use crate::value::cast;

/// X of A X = `y`, with A that of which `ld` and `pivots` are what
/// [`ldl_factor`](fn@super::ldl_factor) gives. Batches of A and `y` broadcast. A pivot that names
/// no row is found when the result is read.
///
/// ld: [.., n, n]   pivots: [.., n] (i32)   y: [.., n, k]   result: as y
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if `ld` and `y` are not both of f32 or of f64, or `pivots` not
/// of i32; `DeviceMismatch`; `OutOfMemory`.
pub fn ldl_solve<V: Value>(ld: &V, pivots: &V, y: &V) -> Result<V> {
    autocast!("ldl_solve", ld, y => ldl_solve(ld, pivots, y));
    let n = check_square("ldl_solve", ld)?;
    check("ldl_solve", y)?;
    lu_solve::check_pivots("ldl_solve", ld, pivots)?;
    linalg::check_pair("ldl_solve", ld, y)?;
    let (_, [rows, _]) = sizes(y);
    if n != rows {
        return Err(Error::shape(format!(
            "ldl_solve: matrices {} and right-hand sides {}; {n} and {rows} must be equal",
            ld.shape(),
            y.shape()
        )));
    }
    let (a, of, lead) = together("ldl_solve", ld, y)?;
    if of.shape().numel() == 0 {
        return batched(&of, &lead);
    }
    let b = a.shape()[0];
    let flat = |v: &V| reshape::to_shape(v, &Shape::new(&[b, n])?);
    let pivots = flat(&expand(&cast(pivots, DType::I64)?, &linalg::shape(&lead, &[n])?)?)?;
    let (zero, one) = (pivots.scalar_like(0i64)?, pivots.scalar_like(1i64)?);
    let number = view::numbers(&pivots, n, 0..n as i64)?;

    // Rows of a block of 2 x 2 are those of an odd and of an even number of negative pivots.
    let negative = lt(&pivots, &zero)?;
    let count = cumsum(&cast(&negative, DType::I64)?, 1)?;
    let odd = ne(&remainder(&count, &pivots.scalar_like(2i64)?)?, &zero)?;
    let first = logical_and(&negative, &odd)?;
    let second = logical_and(&negative, &eq(&odd, &odd.scalar_like(false)?)?)?;

    // The exchange of a block is that of its second row, and comes before both columns.
    let next = add(&number, &one)?;
    let row = where_(&first, &next, &number)?;
    let with = where_(&second, &number, &sub(&abs(&pivots)?, &one)?)?;
    let orders = exchanges::orders(&row, &with, n)?;
    let order = exchanges::composed(&orders)?;
    let l = gather(&a, 1, &turned(&exchanges::after_each(&orders)?)?)?;
    let below = eq(&unsqueeze(&number, 1)?, &next)?;
    let l = where_(&logical_and(&below, &unsqueeze(&first, 1)?)?, &l.scalar_like(0.0)?, &l)?;

    let d = diagonal(&a, 0, 1, 2)?;
    let (none, one_of_d) = (d.scalar_like(0.0)?, d.scalar_like(1.0)?);
    let beside = if n == 1 {
        expand(&none, d.shape())?
    } else {
        let under = diagonal(&a, -1, 1, 2)?;
        let by = |before: isize| {
            let amounts = [before, 1 - before];
            pad(&under, &amounts, Mode::Constant(Scalar::Int(0)))
        };
        where_(&first, &by(0)?, &where_(&second, &by(1)?, &none)?)?
    };
    let before = sub(&number, &one)?;
    let other = where_(&first, &next, &where_(&second, &before, &number)?)?;

    let inner = solved(&l, &ordered(&of, &order)?, false, true)?;
    let column = |v: &V| unsqueeze(v, 2);
    // By rows (d, e) and (e, f) of a block, over e; of a block of 1 x 1, e is 1, f too, and the
    // other row has no part in it.
    let single = eq(&beside, &none)?;
    let e = column(&where_(&single, &one_of_d, &beside)?)?;
    let f = where_(&single, &one_of_d, &gather(&d, 1, &other)?)?;
    let (d, f) = (div(&column(&d)?, &e)?, div(&column(&f)?, &e)?);
    let rest = where_(&column(&single)?, &none, &ordered(&inner, &other)?)?;
    let rest = sub(&mul(&f, &div(&inner, &e)?)?, &div(&rest, &e)?)?;
    let pair = cast(&eq(&single, &single.scalar_like(false)?)?, d.dtype())?;
    let scaled = div(&rest, &sub(&mul(&d, &f)?, &column(&pair)?)?)?;
    let outer = solved(&turned(&l)?, &scaled, true, true)?;
    batched(&ordered(&outer, &argsort(&order, 1, false)?)?, &lead)
}

/// By name: operands x (the factors), pivots and y; attribute hermitian (absent: false), which
/// makes no difference to real matrices.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::flag(a, "hermitian", false)?;
    Ok(vec![ldl_solve(a.input("x")?, a.input("pivots")?, a.input("y")?)?])
}
