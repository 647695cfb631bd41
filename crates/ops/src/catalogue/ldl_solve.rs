//! ldl_solve: the solution of a system of which the LDL factors are known.

use super::linalg::lu::ordered;
use super::linalg::triangular::solved;
use super::linalg::{self, batched, check, check_square, exchanges, sizes, together, turned};
use super::{abs, add, argsort, cumsum, diagonal, eq, expand, gather, logical_and, lt, ne, pad::Mode};
use super::{lu_solve, pad, remainder, reshape, sub, unsqueeze, view, where_};
use crate::prelude::*;
use crate::value::cast;

/// A row of D^-1 y: operands are the row's element of y, that of the other row of its block of D,
/// what D has on the diagonal in these rows, and beside it, which is 0 in a block of 1 x 1.
#[derive(Clone, Copy, Debug)]
pub struct ByBlock;

impl Map<5> for ByBlock {
    const NAME: &'static str = "ldl_block";
    #[inline(always)]
    fn lane<L: Lane>(&self, [y, z, d, f, e]: [L; 5]) -> L {
        let one = L::lit(1.0);
        let (own, other) = (d / e, f / e);
        let pair = (other * (y / e) - z / e) / own.fma(other, -one);
        L::select(e.eq(L::lit(0.0)), y / d, pair)
    }
}
compile_map! { 5 ByBlock; }

/// X of A X = `y`, with A that of which `ld` and `pivots` are what
/// [`ldl_factor`](fn@super::ldl_factor) gives. Batches of A and `y` broadcast. A pivot that names no
/// row is found when the result is read.
///
/// ld: [.., n, n]   pivots: [.., n] (i32)   y: [.., n, k]   result: as y
///
/// # Errors
/// `ShapeMismatch`; `DTypeMismatch` if `ld` and `y` are not both of f32 or of f64, or `pivots` not of
/// i32; `DeviceMismatch`; `OutOfMemory`.
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
    let none = d.scalar_like(0.0)?;
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
    let [own, of_other] = [column(&d)?, column(&gather(&d, 1, &other)?)?];
    let scaled = map(ByBlock, [&inner, &ordered(&inner, &other)?, &own, &of_other, &column(&beside)?])?;
    let outer = solved(&turned(&l)?, &scaled, true, true)?;
    batched(&ordered(&outer, &argsort(&order, 1, false)?)?, &lead)
}

/// By name: operands x (the factors), pivots and y; attribute hermitian (absent: false), which makes
/// no difference to real matrices.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    linalg::flag(a, "hermitian", false)?;
    Ok(vec![ldl_solve(a.input("x")?, a.input("pivots")?, a.input("y")?)?])
}
