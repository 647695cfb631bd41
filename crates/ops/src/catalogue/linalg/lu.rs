//! LU factors, with partial pivoting or with the pivots that are there, and their gradient.
//!
//! With pivoting the pivot of a column is its element of largest magnitude, the first among equals,
//! in the order that the rows have at that step, as in LAPACK. A column of zeros keeps its zero
//! pivot, with zeros below it.

use super::triangular::{self, solved, solved_right};
use super::{LEAF, assembled, block, exchanges, half, numbers, product, rows_of, turned};
use crate::array;
use crate::catalogue::{
    abs, add, argmax, argsort, concat, eq, gather, narrow, neg, reshape, sub, tril, triu, view,
};
use crate::factor_steps::elimination;
use crate::prelude::*;
use crate::value::cast;
use std::ops::Range;

/// Columns that are asked for in one pass: a block of a triangular system at most, whose inverse is
/// that of one matrix.
const FUSED_COLUMNS: usize = triangular::BLOCK;

/// Factors of the rows below a pivot: operands are the pivot's column, its element in row 0, the
/// pivot, and 1 in the row that row 0 is exchanged with.
#[derive(Clone, Copy, Debug)]
struct Factor;

impl Map<4> for Factor {
    const NAME: &'static str = "lu_factor_column";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, first, pivot, exchanged]: [L; 4]) -> L {
        let zero = L::lit(0.0);
        let x = L::select(exchanged.eq(zero), x, first);
        elimination::factor(x, pivot)
    }
}
compile_map! { 4 Factor; }

/// One step of elimination: operands are the elements below row 0, those of row 0 and of the
/// pivot's row, the factors, 1 in the row that row 0 is exchanged with, and what is negative in
/// columns that are done, and 0 in that of the pivot.
#[derive(Clone, Copy, Debug)]
struct Eliminate;

impl Map<6> for Eliminate {
    const NAME: &'static str = "lu_step";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, first, u, l, exchanged, at]: [L; 6]) -> L {
        let zero = L::lit(0.0);
        let x = L::select(exchanged.eq(zero), x, first);
        L::select(at.lt(zero), x, L::select(at.eq(zero), l, elimination::eliminated(x, l, u)))
    }
}
compile_map! { 6 Eliminate; }

/// Factors of [b, m, n].
pub(super) struct Factors<B: Backend> {
    /// L below the diagonal, U on and above it.
    pub lu: Array<B>,
    /// Row i of L U is row `order[i]` of the operand: [b, m].
    pub order: Array<B>,
    /// With which row each of some rows was exchanged, in turn: [b, rows], counted from the row.
    pivots: Vec<(Array<B>, Range<usize>)>,
}

/// Rows of [b, m, n] in the order [b, k].
pub(in crate::catalogue) fn ordered<V: Value>(x: &V, order: &V) -> Result<V> {
    let &[b, k] = &order.shape()[..] else { unreachable!("an order per matrix") };
    let n = x.shape()[2];
    let index = reshape::to_shape(order, &Shape::new(&[b, k, 1])?)?;
    gather(x, 1, &crate::catalogue::expand(&index, &Shape::new(&[b, k, n])?)?)
}

/// Some elements of [b, m].
fn places<V: Value>(x: &V, from: usize, len: usize) -> Result<V> {
    narrow(x, 1, from as isize, len)
}

/// The factors of few columns, if the backend has them in one pass.
fn fused<B: Backend>(a: &Array<B>) -> Result<Option<Factors<B>>> {
    let &[b, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let Some(all) = B::fused(a.device(), &Fused::LuFactor, &[a.view()])? else { return Ok(None) };
    let [lu, order, pivots] = all.try_into().unwrap_or_else(|_| panic!("lu_factor has three results"));
    let k = m.min(n);
    Ok(Some(Factors {
        lu: Array::placed(a.device(), lu, a.shape().clone(), a.dtype()),
        order: Array::placed(a.device(), order, Shape::new(&[b, m])?, DType::I64),
        pivots: vec![(Array::placed(a.device(), pivots, Shape::new(&[b, k])?, DType::I64), 0..k)],
    }))
}

/// The factors with partial pivoting.
pub(super) fn factor<B: Backend>(a: &Array<B>) -> Result<Factors<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    if n <= FUSED_COLUMNS
        && let Some(all) = fused(a)?
    {
        return Ok(all);
    }
    if n <= LEAF {
        return small(a);
    }
    let h = if n > m { m } else { half(n) };
    let left = factor(&block(a, 0..m, 0..h)?)?;
    let right = ordered(&block(a, 0..m, h..n)?, &left.order)?;
    let own = block(&left.lu, 0..h, 0..h)?;
    let top = triangular::solve(&own, &rows_of(&right, 0..h)?, false, true)?;
    if h == m {
        let lu = assembled(&[(&left.lu, 0, 0), (&top, 0, h)], m, n)?;
        return Ok(Factors { lu, ..left });
    }
    let below = rows_of(&left.lu, h..m)?;
    let rest = factor(&sub(&rows_of(&right, h..m)?, &product(&below, &top)?)?)?;
    let below = ordered(&below, &rest.order)?;
    let lu = assembled(&[(&own, 0, 0), (&below, h, 0), (&top, 0, h), (&rest.lu, h, h)], m, n)?;
    let last = gather(&places(&left.order, h, m - h)?, 1, &rest.order)?;
    let order = concat(&[&places(&left.order, 0, h)?, &last], 1)?;
    let mut pivots = left.pivots;
    pivots.extend(rest.pivots.into_iter().map(|(p, rows)| (p, rows.start + h..rows.end + h)));
    Ok(Factors { lu, order, pivots })
}

/// One column after the other. Columns lie as rows: what a step does to one is a run through
/// memory, and few columns would be short runs.
fn small<B: Backend>(a: &Array<B>) -> Result<Factors<B>> {
    let &[b, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let taken = m.min(n);
    let counted: Array<B> = view::numbers(a, m, 0..m as i64)?;
    // Column k sees itself at 0.
    let at = sub(&numbers(a, &[2 * n, 1])?, &a.scalar_like(n as f64)?)?;
    let mut x = turned(a)?.contiguous()?;
    let (mut done, mut pivots) = (Vec::new(), Vec::new());
    for k in 0..taken {
        let left = m - k;
        let column = rows_of(&x, k..k + 1)?;
        let p = argmax(&abs(&reshape::to_shape(&column, &Shape::new(&[b, left])?)?)?, Some(1), true)?;
        let place = reshape::to_shape(&p, &Shape::new(&[b, 1, 1])?)?;
        let own = gather(&x, 2, &crate::catalogue::expand(&place, &Shape::new(&[b, n, 1])?)?)?;
        pivots.push((p, k..k + 1));
        if left > 1 {
            let exchanged = cast(&eq(&narrow(&counted, 0, 1, left - 1)?, &place)?, a.dtype())?;
            let at = narrow(&at, 0, (n - k) as isize, n)?;
            let (first, below) = (block(&x, 0..n, 0..1)?, block(&x, 0..n, 1..left)?);
            let of = |v: &Array<B>| rows_of(v, k..k + 1);
            let l = array::map(&Factor, [&of(&below)?, &of(&first)?, &of(&own)?, &exchanged])?;
            x = array::map(&Eliminate, [&below, &first, &own, &l, &exchanged, &at])?;
        }
        done.push(own);
    }
    if m > n {
        done.push(x);
    }
    let lu = turned(&concat(&done.iter().collect::<Vec<_>>(), 2)?)?.contiguous()?;
    let from: Array<B> = view::numbers(a, taken, 0..taken as i64)?;
    let places = concat(&pivots.iter().map(|(p, _)| p).collect::<Vec<_>>(), 1)?;
    let order = exchanges::composed(&exchanges::orders(&from, &add(&places, &from)?, m)?)?;
    Ok(Factors { lu, order, pivots })
}

/// L and U in one matrix, of [b, m, n], with the pivots that are on the diagonal.
fn factor_in_place<B: Backend>(a: &Array<B>) -> Result<Array<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    if n <= LEAF {
        return small_in_place(a);
    }
    let h = if n > m { m } else { half(n) };
    let left = factor_in_place(&block(a, 0..m, 0..h)?)?;
    let right = block(a, 0..m, h..n)?;
    let top = triangular::solve(&block(&left, 0..h, 0..h)?, &rows_of(&right, 0..h)?, false, true)?;
    if h == m {
        return assembled(&[(&left, 0, 0), (&top, 0, h)], m, n);
    }
    let rest = sub(&rows_of(&right, h..m)?, &product(&rows_of(&left, h..m)?, &top)?)?;
    assembled(&[(&left, 0, 0), (&top, 0, h), (&factor_in_place(&rest)?, h, h)], m, n)
}

/// One column after the other.
fn small_in_place<B: Backend>(a: &Array<B>) -> Result<Array<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let none = a.scalar_like(0.0)?;
    let mut x = a.clone();
    let mut done = Vec::new();
    for k in 0..m.min(n) {
        let (left, wide) = (m - k, n - k);
        done.push((rows_of(&x, 0..1)?, k, k));
        if left == 1 {
            break;
        }
        let pivot = block(&x, 0..1, 0..1)?;
        let l = array::map(&Factor, [&block(&x, 1..left, 0..1)?, &pivot, &pivot, &none])?;
        if wide > 1 {
            let (below, own) = (block(&x, 1..left, 1..wide)?, block(&x, 0..1, 1..wide)?);
            x = array::map(&Eliminate, [&below, &own, &own, &l, &none, &x.scalar_like(1.0)?])?;
        }
        done.push((l, k + 1, k));
    }
    assembled(&done.iter().map(|(x, row, column)| (x, *row, *column)).collect::<Vec<_>>(), m, n)
}

impl<B: Backend> Factors<B> {
    /// The exchanges as LAPACK counts them, from 1, of i32: [b, min(m, n)].
    fn pivots(&self) -> Result<Array<B>> {
        let all = concat(&self.pivots.iter().map(|(p, _)| p).collect::<Vec<_>>(), 1)?;
        let from = self.pivots.iter().flat_map(|(_, rows)| rows.clone()).map(|row| row as i64 + 1);
        let from: Array<B> = view::numbers(&all, all.shape()[1], from)?;
        add(&all, &from)?.cast(DType::I32)
    }
}

/// The packed factors of matrices [b, m, n], the exchanges [b, min(m, n)] (i32) and the order of
/// rows [b, m] (i64). No size is 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct LuFactor {
    /// Is the pivot of a column chosen? Else rows stay where they are.
    pub pivot: bool,
}

impl Op for LuFactor {
    fn name(&self) -> &'static str {
        "lu_factor"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        if self.pivot {
            let all = factor(x[0])?;
            let pivots = all.pivots()?;
            return Ok(Outputs::from_iter([all.lu, pivots, all.order]));
        }
        let &[b, m, n] = &x[0].shape()[..] else { unreachable!("matrices") };
        let counted = |k: usize, from: i64| -> Result<Array<B>> {
            let all: Array<B> = view::numbers(x[0], k, from..from + k as i64)?;
            all.reshape(&Shape::new(&[1, k])?)?.broadcast_to(&Shape::new(&[b, k])?, "lu")
        };
        let pivots = counted(m.min(n), 1)?.cast(DType::I32)?;
        Ok(Outputs::from_iter([factor_in_place(x[0])?, pivots, counted(m, 0)?]))
    }
    /// With k = min(m, n), L1 and U1 the first k rows and columns, and those beyond them as L2
    /// and U2: the gradient by the first k rows and columns is L1^-T P U1^-T, with P the strictly
    /// lower triangle of L1^T gL1 - gU2 U2^T and the upper one of gU1 U1^T - L2^T gL2; by the rows
    /// beyond it is gL2 U1^-T, by the columns L1^-T gU2.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let Some(g) = &g[0] else { return Ok(vec![None]) };
        let (lu, order) = (c.y(0), c.y(2));
        let &[_, m, n] = &lu.shape()[..] else { unreachable!("matrices") };
        let k = m.min(n);
        let (own, g_own) = (block(lu, 0..k, 0..k)?, block(g, 0..k, 0..k)?);
        let unit = super::eye(lu, k, k)?;
        let lower = add(&tril(&own, -1)?, &unit)?;
        let upper = triu(&own, 0)?;
        let mut below = product(&turned(&lower)?, &tril(&g_own, -1)?)?;
        let mut above = product(&triu(&g_own, 0)?, &turned(&upper)?)?;
        if n > k {
            let beyond = product(&block(g, 0..k, k..n)?, &turned(&block(lu, 0..k, k..n)?)?)?;
            below = sub(&below, &beyond)?;
        }
        if m > k {
            let beyond = product(&turned(&block(lu, k..m, 0..k)?)?, &block(g, k..m, 0..k)?)?;
            above = sub(&above, &beyond)?;
        }
        let middle = add(&tril(&below, -1)?, &triu(&above, 0)?)?;
        let upper_turned = |y: &V| solved_right(&turned(&own)?, y, false, false);
        let lower_turned = |y: &V| solved(&turned(&own)?, y, true, true);
        let mut all = lower_turned(&upper_turned(&middle)?)?;
        if m > k {
            all = concat(&[&all, &upper_turned(&block(g, k..m, 0..k)?)?], 1)?;
        }
        if n > k {
            all = concat(&[&all, &lower_turned(&block(g, 0..k, k..n)?)?], 2)?;
        }
        Ok(vec![Some(ordered(&all, &argsort(order, 1, false)?)?)])
    }
}

/// X of A X = Y, or of A^T X = Y; operands A, Y, and the factors of A and the order of its rows,
/// which are constants: the gradient by A is that of the system.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Solve {
    /// Is it the system of A^T?
    pub turned: bool,
}

impl Op for Solve {
    fn name(&self) -> &'static str {
        "solve"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [_, y, lu, order] = x[..] else { unreachable!("four operands") };
        let solution = if self.turned {
            let inner = triangular::solve(&turned(lu)?, y, false, false)?;
            let inner = triangular::solve(&turned(lu)?, &inner, true, true)?;
            ordered(&inner, &argsort(order, 1, false)?)?
        } else {
            let inner = triangular::solve(lu, &ordered(y, order)?, false, true)?;
            triangular::solve(lu, &inner, true, false)?
        };
        Ok(Outputs::from_buf([solution]))
    }
    /// dY = A^-T g, dA = -dY X^T.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a system has one result");
        let dy = V::apply(Solve { turned: !self.turned }, &[c.x(0), g, c.x(2), c.x(3)])?;
        let da = c.want(0, || {
            let (left, right) = if self.turned { (c.y(0), &dy) } else { (&dy, c.y(0)) };
            neg(&product(left, &turned(right)?)?)
        })?;
        Ok(vec![da, Some(dy), None, None])
    }
}

/// The packed factors of [b, m, n], exchanges and order, as constants.
pub(in crate::catalogue) fn constants<V: Value>(a: &V) -> Result<[V; 3]> {
    let all = LuFactor { pivot: true }.forward(&[a.array()])?;
    let all: Vec<V> = all.into_iter().map(V::from_array).collect();
    Ok(all.try_into().expect("three results"))
}

/// X of A X = Y for [b, n, n] and [b, n, k].
pub(in crate::catalogue) fn solved_by<V: Value>(a: &V, y: &V) -> Result<V> {
    if y.shape().numel() == 0 || a.shape().numel() == 0 {
        return Ok(y.clone());
    }
    let [lu, _, order] = constants(a)?;
    V::apply(Solve { turned: false }, &[a, y, &lu, &order])
}
