//! Triangular matrices: inverses, and the solution of systems by them.
//!
//! Inverses of small matrices are made by substitution, those of larger ones from the inverses of
//! their halves, which are inverted as one batch. Systems are solved by blocks of [`BLOCK`] rows,
//! whose inverses are made together too, so that all else is products.

use super::{LEAF, assembled, block, eye, fused_one, product, rows_of, turned};
use crate::array;
use crate::catalogue::{concat, diagonal, div::div, neg, sub, transpose, unsqueeze};
use crate::catalogue::{tril, triu};
use crate::factor_steps::elimination;
use crate::prelude::*;
use std::ops::Range;

/// Rows of a system that are solved by a product with the inverse of a block.
pub(super) const BLOCK: usize = 64;

/// x - l (r / p): a row that is done is subtracted from those below.
#[derive(Clone, Copy, Debug)]
struct Substitute;

impl Map<4> for Substitute {
    const NAME: &'static str = "substitute";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, l, r, p]: [L; 4]) -> L {
        elimination::substituted(x, l, r, p)
    }
}
compile_map! { 4 Substitute; }

/// The inverses of lower triangular matrices [b, n, n], of which only that triangle is read;
/// without the diagonal, which is ones, if `unit`.
pub(super) fn inverse<B: Backend>(l: &Array<B>, unit: bool) -> Result<Array<B>> {
    let n = l.shape()[1];
    if n <= BLOCK
        && let Some(y) = fused_one(l.device(), &Fused::TriangularInverse { unit }, &[l], l.shape())?
    {
        return Ok(y);
    }
    if n <= LEAF {
        return small_inverse(l, unit);
    }
    // Of a size that has halves down to the smallest.
    let mut wide = LEAF;
    while wide < n {
        wide *= 2;
    }
    if wide == n {
        return inverse_of_halves(l, unit);
    }
    let more = eye(l, wide - n, wide - n)?;
    let more = more.broadcast_to(&Shape::new(&[l.shape()[0], wide - n, wide - n])?, "inverse")?;
    let padded = assembled(&[(l, 0, 0), (&more, n, n)], wide, wide)?;
    block(&inverse_of_halves(&padded, unit)?, 0..n, 0..n)
}

/// [A, 0; C, D] has the inverse [A', 0; -D' C A', D'], with A' and D' those of A and D.
fn inverse_of_halves<B: Backend>(l: &Array<B>, unit: bool) -> Result<Array<B>> {
    let &[b, n, _] = &l.shape()[..] else { unreachable!("matrices") };
    if n <= LEAF {
        return small_inverse(l, unit);
    }
    let h = n / 2;
    let ends = concat(&[&block(l, 0..h, 0..h)?, &block(l, h..n, h..n)?], 0)?;
    let ends = inverse_of_halves(&ends, unit)?;
    let first = crate::catalogue::narrow(&ends, 0, 0, b)?;
    let last = crate::catalogue::narrow(&ends, 0, b as isize, b)?;
    let corner = product(&last, &product(&block(l, h..n, 0..h)?, &first)?)?;
    assembled(&[(&first, 0, 0), (&neg(&corner)?, h, 0), (&last, h, h)], n, n)
}

fn small_inverse<B: Backend>(l: &Array<B>, unit: bool) -> Result<Array<B>> {
    let &[b, n, _] = &l.shape()[..] else { unreachable!("matrices") };
    let one = l.scalar_like(1.0)?;
    let mut rest = eye(l, n, n)?.broadcast_to(&Shape::new(&[b, n, n])?, "inverse")?;
    let mut done = Vec::with_capacity(n);
    for k in 0..n {
        let row = rows_of(&rest, 0..1)?;
        if k + 1 < n {
            let below = rows_of(&rest, 1..n - k)?;
            let column = block(l, k + 1..n, k..k + 1)?;
            let pivot = if unit { one.clone() } else { block(l, k..k + 1, k..k + 1)? };
            rest = array::map(&Substitute, [&below, &column, &row, &pivot])?;
        }
        done.push(row);
    }
    let all = if n == 1 { done[0].clone() } else { concat(&done.iter().collect::<Vec<_>>(), 1)? };
    if unit { Ok(all) } else { div(&all, &unsqueeze(&diagonal(l, 0, 1, 2)?, -1)?) }
}

/// The blocks into which n rows are split.
fn blocks(n: usize) -> Vec<Range<usize>> {
    (0..n).step_by(BLOCK).map(|start| start..n.min(start + BLOCK)).collect()
}

/// The solution X of T X = Y with lower (or `upper`) triangular T [b, n, n] and Y [b, n, k].
pub(super) fn solve<B: Backend>(t: &Array<B>, y: &Array<B>, upper: bool, unit: bool) -> Result<Array<B>> {
    let &[b, n, k] = &y.shape()[..] else { unreachable!("matrices") };
    if b == 0 || n == 0 || k == 0 {
        return Ok(y.clone());
    }
    let diagonal = |r: &Range<usize>| {
        let own = block(t, r.clone(), r.clone())?;
        if upper { turned(&own) } else { Ok(own) }
    };
    let ranges = blocks(n);
    // All whole blocks together, and the one that is smaller.
    let whole = ranges.iter().filter(|r| r.len() == BLOCK).map(diagonal).collect::<Result<Vec<_>>>()?;
    let whole = match &whole[..] {
        [] => None,
        [one] => Some(inverse(one, unit)?),
        several => Some(inverse(&concat(&several.iter().collect::<Vec<_>>(), 0)?, unit)?),
    };
    let inverse_of = |i: usize| {
        let own = match &whole {
            Some(all) if ranges[i].len() == BLOCK => crate::catalogue::narrow(all, 0, (i * b) as isize, b)?,
            _ => inverse(&diagonal(&ranges[i])?, unit)?,
        };
        if upper { transpose(&own, 1, 2) } else { Ok(own) }
    };
    if ranges.len() == 1 {
        return product(&inverse_of(0)?, y);
    }
    let mut rest = y.clone();
    let mut done: Vec<(Array<B>, usize)> = Vec::with_capacity(ranges.len());
    for step in 0..ranges.len() {
        let i = if upper { ranges.len() - 1 - step } else { step };
        let r = &ranges[i];
        // What is left of Y begins at its first row (upper), or ends at its last one.
        let (left, own) = if upper { (0..r.start, r.clone()) } else { (r.end..n, 0..r.len()) };
        let x = product(&inverse_of(i)?, &rows_of(&rest, own)?)?;
        if !left.is_empty() {
            let above = if upper { 0..r.start } else { r.len()..rest.shape()[1] };
            let used = product(&block(t, left, r.clone())?, &x)?;
            rest = sub(&rows_of(&rest, above)?, &used)?;
        }
        done.push((x, r.start));
    }
    assembled(&done.iter().map(|(x, row)| (x, *row, 0)).collect::<Vec<_>>(), n, k)
}

/// X of T X = Y; operands T [b, n, n], of which one triangle is read, and Y [b, n, k].
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct SolveTriangular {
    /// Is it the upper triangle?
    pub upper: bool,
    /// Is the diagonal taken for ones?
    pub unit: bool,
}

impl Op for SolveTriangular {
    fn name(&self) -> &'static str {
        "solve_triangular"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::BOTH
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([solve(x[0], x[1], self.upper, self.unit)?]))
    }
    /// dY = T^-T g, dT = -dY X^T in the triangle that is read.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a system has one result");
        let turned_op = SolveTriangular { upper: !self.upper, ..*self };
        let dy = V::apply(turned_op, &[&turned(c.x(0))?, g])?;
        let dt = c.want(0, || {
            let all = neg(&product(&dy, &turned(c.y(0))?)?)?;
            let off = isize::from(self.unit);
            if self.upper { triu(&all, off) } else { tril(&all, -off) }
        })?;
        Ok(vec![dt, Some(dy)])
    }
}

/// X of T X = Y, for values.
pub(in crate::catalogue) fn solved<V: Value>(t: &V, y: &V, upper: bool, unit: bool) -> Result<V> {
    V::apply(SolveTriangular { upper, unit }, &[t, y])
}

/// X of X T = Y, for values.
pub(in crate::catalogue) fn solved_right<V: Value>(t: &V, y: &V, upper: bool, unit: bool) -> Result<V> {
    turned(&solved(&turned(t)?, &turned(y)?, !upper, unit)?)
}
