//! Singular values and vectors by one-sided Jacobi rotations, and their gradient.
//!
//! Tall matrices become triangular first. Left vectors are made orthonormal by a QR, which also
//! completes them where values are 0. Of each pair of vectors the element of largest magnitude of
//! the right one, the first among equals, is positive.

use super::householder::factors;
use super::jacobi::{orthogonal, orthonormal, row_signs, signs};
use super::lu::ordered;
use super::{block, eye, product, rows_of, scale, turned};
use crate::array;
use crate::catalogue::{add, argsort, concat, diag_embed, diagonal, div::div, expand, gather, mul};
use crate::catalogue::{norm, reshape, square, sub, unsqueeze};
use crate::prelude::*;

/// x / s, and 0 where s is 0.
#[derive(Clone, Copy, Debug)]
struct Unit;

impl Map<2> for Unit {
    const NAME: &'static str = "svd_unit";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, s]: [L; 2]) -> L {
        let zero = L::lit(0.0);
        L::select(s.eq(zero), zero, x / s)
    }
}
compile_map! { 2 Unit; }

/// U, S and V^T.
pub(super) struct Parts<B: Backend> {
    pub u: Array<B>,
    pub s: Array<B>,
    pub vt: Array<B>,
}

/// What the rotations leave of [b, m, n] with m >= n: its rows, sorted by singular values, the
/// values, the scale of the matrix, and the Q by which it became triangular.
struct Turned<B: Backend> {
    rows: Array<B>,
    s: Array<B>,
    q: Option<Array<B>>,
}

fn turn<B: Backend>(a: &Array<B>, vectors: bool) -> Result<Turned<B>> {
    let &[b, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let unit = scale::unit(a)?;
    let a = mul(a, &unit)?;
    let (q, core) = if m > n {
        let [q, r] = factors(&a, n)?;
        (Some(q), r)
    } else {
        (None, a)
    };
    let columns = turned(&core)?.contiguous()?;
    let start = if vectors {
        concat(&[&columns, &expand(&eye(&core, n, n)?, &Shape::new(&[b, n, n])?)?], 2)?
    } else {
        columns
    };
    let all = orthogonal(&start, n)?;
    let s = norm(&block(&all, 0..n, 0..n)?, 2.0, Some(&[2]), false)?;
    let order = argsort(&s, 1, true)?;
    let s = div(&gather(&s, 1, &order)?, &reshape::to_shape(&unit, &Shape::new(&[b, 1])?)?)?;
    Ok(Turned { rows: ordered(&all, &order)?, s, q })
}

/// U, S and V^T of [b, m, n] with m >= n; U is square if `full`. Signs are not settled.
fn tall<B: Backend>(a: &Array<B>, full: bool) -> Result<Parts<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let Turned { rows, s, q } = turn(a, true)?;
    let data = block(&rows, 0..n, 0..n)?;
    let vt = orthonormal(&block(&rows, 0..n, n..2 * n)?.contiguous()?)?;
    let lengths = norm(&data, 2.0, Some(&[2]), true)?;
    let u = turned(&array::map(&Unit, [&data, &lengths])?)?;
    let u = completed(&u, n)?;
    let u = match q {
        Some(q) => product(&q, &u)?,
        None => u,
    };
    let u = if full && m > n { completed(&u, m)? } else { u };
    Ok(Parts { u, s, vt })
}

/// Columns [b, m, n], orthonormal but for some that are 0, as `columns` of an orthogonal matrix.
fn completed<B: Backend>(u: &Array<B>, columns: usize) -> Result<Array<B>> {
    let n = u.shape()[2];
    let [q, r] = factors(u, columns)?;
    let signs = unsqueeze(&signs(&diagonal(&r, 0, 1, 2)?)?, 1)?;
    let first = mul(&block(&q, 0..q.shape()[1], 0..n)?, &signs)?;
    if columns == n {
        return Ok(first);
    }
    concat(&[&first, &block(&q, 0..q.shape()[1], n..columns)?], 2)
}

/// U, S and V^T of [b, m, n].
pub(super) fn parts<B: Backend>(a: &Array<B>, full: bool) -> Result<Parts<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let k = m.min(n);
    let Parts { u, s, vt } = if m >= n {
        tall(a, full)?
    } else {
        let of = tall(&turned(a)?, full)?;
        Parts { u: turned(&of.vt)?, s: of.s, vt: turned(&of.u)? }
    };
    let signs = row_signs(&rows_of(&vt, 0..k)?)?;
    let right = mul(&rows_of(&vt, 0..k)?, &signs)?;
    let left = mul(&block(&u, 0..m, 0..k)?, &turned(&signs)?)?;
    let (rows, columns) = (vt.shape()[1], u.shape()[2]);
    let vt = if rows > k { concat(&[&right, &rows_of(&vt, k..rows)?], 1)? } else { right };
    let u = if columns > k { concat(&[&left, &block(&u, 0..m, k..columns)?], 2)? } else { left };
    Ok(Parts { u, s, vt })
}

/// Singular values [b, k] of [b, m, n], descending: those of [`parts`].
pub(in crate::catalogue) fn values<B: Backend>(a: &Array<B>) -> Result<Array<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    Ok(if m >= n { turn(a, false)? } else { turn(&turned(a)?, false)? }.s)
}

/// U, S and V^T of matrices [b, m, n], none of whose sizes is 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Svd {
    /// Are U and V square?
    pub full: bool,
}

/// The differences by which gradients are divided: `s[j]^2 - s[i]^2`, 1 on the diagonal.
fn gaps<V: Value>(s: &V) -> Result<V> {
    let (k, squares) = (s.shape()[1], square(s)?);
    add(&sub(&unsqueeze(&squares, 1)?, &unsqueeze(&squares, 2)?)?, &eye(s, k, k)?)
}

/// x - x^T
fn skew<V: Value>(x: &V) -> Result<V> {
    sub(x, &turned(x)?)
}

impl Op for Svd {
    fn name(&self) -> &'static str {
        "svd"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let Parts { u, s, vt } = parts(x[0], self.full)?;
        Ok(Outputs::from_iter([u, s, vt]))
    }
    /// U M V^T, with M = (skew(U^T gU) / E) S + S (skew(V^T gV) / E) + diag(gS); and what the
    /// columns that U and V lack contribute: (I - U U^T) gU S^-1 V^T and U S^-1 gV^T (I - V V^T).
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let &[_, m, n] = &c.shape(0)[..] else { unreachable!("matrices") };
        let k = m.min(n);
        let (u, s, vt) = (block(c.y(0), 0..m, 0..k)?, c.y(1), block(c.y(2), 0..k, 0..n)?);
        let (row, column) = (unsqueeze(s, 1)?, unsqueeze(s, 2)?);
        let by = |i: usize| g.get(i).and_then(Option::as_ref);
        let gu = by(0).map(|g| block(g, 0..m, 0..k)).transpose()?;
        let gvt = by(2).map(|g| block(g, 0..k, 0..n)).transpose()?;
        let mut middle: Option<V> = by(1).map(|g| diag_embed(g, 0, 1, 2)).transpose()?;
        let plus = |sum: Option<V>, x: V| -> Result<Option<V>> {
            Ok(Some(match sum {
                Some(sum) => add(&sum, &x)?,
                None => x,
            }))
        };
        if let Some(g) = &gu {
            let turn = div(&skew(&product(&turned(&u)?, g)?)?, &gaps(s)?)?;
            middle = plus(middle, mul(&turn, &row)?)?;
        }
        if let Some(g) = &gvt {
            let turn = div(&skew(&product(&vt, &turned(g)?)?)?, &gaps(s)?)?;
            middle = plus(middle, mul(&column, &turn)?)?;
        }
        let Some(middle) = middle else { return Ok(vec![None]) };
        let mut all = product(&u, &product(&middle, &vt)?)?;
        if let Some(g) = gu.filter(|_| m > k) {
            let scaled = div(&g, &row)?;
            let outside = sub(&scaled, &product(&u, &product(&turned(&u)?, &scaled)?)?)?;
            all = add(&all, &product(&outside, &vt)?)?;
        }
        if let Some(g) = gvt.filter(|_| n > k) {
            let scaled = div(&g, &column)?;
            let outside = sub(&scaled, &product(&product(&scaled, &turned(&vt)?)?, &vt)?)?;
            all = add(&all, &product(&u, &outside)?)?;
        }
        Ok(vec![Some(all)])
    }
}
