//! QR by Householder's reflections, with the signs of LAPACK, and its gradient.
//!
//! The reflections of n columns are I - V T V^T, with unit lower trapezoidal V and upper triangular
//! T (Schreiber and Van Loan 1989); halves are joined as Elmroth and Gustavson do (1998).

use super::triangular::{self, solved_right};
use super::{LEAF, assembled, block, eye, half, numbers, product, rows_of, scale, turned};
use crate::array;
use crate::catalogue::{add, concat, div::div, mul, neg, norm, sub, tril, triu};
use crate::prelude::*;

/// Element of R on the diagonal, of alpha and the norm of what is below it: alpha itself if that is
/// 0, else of the other sign.
#[derive(Clone, Copy, Debug)]
struct Beta;

impl Map<2> for Beta {
    const NAME: &'static str = "householder_beta";
    #[inline(always)]
    fn lane<L: Lane>(&self, [alpha, below]: [L; 2]) -> L {
        let size = alpha.fma(alpha, below * below).sqrt();
        L::select(below.eq(L::lit(0.0)), alpha, (-size).copysign(-alpha))
    }
}
compile_map! { 2 Beta; }

/// The factor of the reflection, of alpha and beta; 0 for none.
#[derive(Clone, Copy, Debug)]
struct Tau;

impl Map<2> for Tau {
    const NAME: &'static str = "householder_tau";
    #[inline(always)]
    fn lane<L: Lane>(&self, [alpha, beta]: [L; 2]) -> L {
        L::select(alpha.eq(beta), L::lit(0.0), (beta - alpha) / beta)
    }
}
compile_map! { 2 Tau; }

/// The reflection's vector: 1 in row 0, below it x / (alpha - beta).
#[derive(Clone, Copy, Debug)]
struct Direction;

impl Map<4> for Direction {
    const NAME: &'static str = "householder_vector";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, alpha, beta, row]: [L; 4]) -> L {
        let zero = L::lit(0.0);
        let below = L::select(alpha.eq(beta), zero, x / (alpha - beta));
        L::select(row.eq(zero), L::lit(1.0), below)
    }
}
compile_map! { 4 Direction; }

/// x - v (tau w)
#[derive(Clone, Copy, Debug)]
struct Reflect;

impl Map<4> for Reflect {
    const NAME: &'static str = "householder_step";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, v, tau, w]: [L; 4]) -> L {
        (-v).fma(tau * w, x)
    }
}
compile_map! { 4 Reflect; }

/// The element of I + diag(tau) G above the diagonal, and of I elsewhere.
#[derive(Clone, Copy, Debug)]
struct Joined;

impl Map<4> for Joined {
    const NAME: &'static str = "householder_joined";
    #[inline(always)]
    fn lane<L: Lane>(&self, [g, tau, row, column]: [L; 4]) -> L {
        L::select(row.lt(column), tau * g, L::from_mask(row.eq(column)))
    }
}
compile_map! { 4 Joined; }

/// The reflections that make [b, m, n] with n <= m upper triangular, and what it becomes.
struct Reflections<B: Backend> {
    /// [b, m, n]
    v: Array<B>,
    /// [b, n, n]
    t: Array<B>,
    /// [b, n, n], upper triangular.
    r: Array<B>,
}

/// x - V (T^T (V^T x))
fn reflected<B: Backend>(q: &Reflections<B>, x: &Array<B>) -> Result<Array<B>> {
    sub(x, &product(&q.v, &product(&turned(&q.t)?, &product(&turned(&q.v)?, x)?)?)?)
}

fn reflections<B: Backend>(a: &Array<B>) -> Result<Reflections<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    if n <= LEAF {
        return small(a);
    }
    let h = half(n);
    let left = reflections(&block(a, 0..m, 0..h)?)?;
    let right = reflected(&left, &block(a, 0..m, h..n)?)?;
    let rest = reflections(&rows_of(&right, h..m)?)?;
    let shared = product(&turned(&rows_of(&left.v, h..m)?)?, &rest.v)?;
    let corner = neg(&product(&left.t, &product(&shared, &rest.t)?)?)?;
    Ok(Reflections {
        v: assembled(&[(&left.v, 0, 0), (&rest.v, h, h)], m, n)?,
        t: assembled(&[(&left.t, 0, 0), (&corner, 0, h), (&rest.t, h, h)], n, n)?,
        r: assembled(&[(&left.r, 0, 0), (&rows_of(&right, 0..h)?, 0, h), (&rest.r, h, h)], n, n)?,
    })
}

/// One column after the other.
fn small<B: Backend>(a: &Array<B>) -> Result<Reflections<B>> {
    let &[_, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let rows = numbers(a, &[m, 1])?;
    let mut x = a.clone();
    let (mut vectors, mut factors, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..n {
        let (left, wide) = (m - k, n - k);
        let (column, alpha) = (block(&x, 0..left, 0..1)?, block(&x, 0..1, 0..1)?);
        let below = norm(&block(&x, 1..left, 0..1)?, 2.0, Some(&[1]), true)?;
        let beta = array::map(&Beta, [&alpha, &below])?;
        let tau = array::map(&Tau, [&alpha, &beta])?;
        let at = crate::catalogue::narrow(&rows, 0, 0, left)?;
        let v = array::map(&Direction, [&column, &alpha, &beta, &at])?;
        if wide > 1 {
            let others = block(&x, 0..left, 1..wide)?;
            let w = product(&turned(&v)?, &others)?;
            let others = array::map(&Reflect, [&others, &v, &tau, &w])?;
            done.push((rows_of(&others, 0..1)?, k, k + 1));
            x = rows_of(&others, 1..left)?;
        }
        done.push((beta, k, k));
        vectors.push((v, k, k));
        factors.push(tau);
    }
    let by_reference = |all: &[(Array<B>, usize, usize)], m, n| {
        assembled(&all.iter().map(|(x, row, column)| (x, *row, *column)).collect::<Vec<_>>(), m, n)
    };
    let v = by_reference(&vectors, m, n)?;
    let tau = concat(&factors.iter().collect::<Vec<_>>(), 1)?;
    let (row, column) = (numbers(a, &[n, 1])?, numbers(a, &[n])?);
    // T^-1 = diag(1 / tau) + the upper triangle of V^T V; tau may be 0.
    let inverse = array::map(&Joined, [&product(&turned(&v)?, &v)?, &tau, &row, &column])?;
    let t = turned(&triangular::inverse(&turned(&inverse)?, true)?)?;
    Ok(Reflections { v, t: mul(&t, &turned(&tau)?)?, r: by_reference(&done, n, n)? })
}

/// Q [b, m, columns] and R [b, min(m, n), n] of [b, m, n]; R is of the first rows only.
pub(super) fn factors<B: Backend>(a: &Array<B>, columns: usize) -> Result<[Array<B>; 2]> {
    let &[b, m, n] = &a.shape()[..] else { unreachable!("matrices") };
    let k = m.min(n);
    let unit = scale::unit(a)?;
    let a = mul(a, &unit)?;
    let q = reflections(&block(&a, 0..m, 0..k)?)?;
    let r = if n > k {
        assembled(&[(&q.r, 0, 0), (&reflected(&q, &block(&a, 0..m, k..n)?)?, 0, k)], k, n)?
    } else {
        q.r.clone()
    };
    let r = div(&r, &unit)?;
    let ones = eye(&r, m, columns)?.broadcast_to(&Shape::new(&[b, m, columns])?, "qr")?;
    // V^T of the first columns of I are its first columns.
    let top = turned(&rows_of(&q.v, 0..columns)?)?;
    Ok([sub(&ones, &product(&q.v, &product(&q.t, &top)?)?)?, r])
}

/// Q and R of matrices [b, m, n], none of whose sizes is 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Qr {
    /// Is Q square, with as many rows of R?
    pub complete: bool,
}

impl Op for Qr {
    fn name(&self) -> &'static str {
        "qr"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let &[_, m, n] = &x[0].shape()[..] else { unreachable!("matrices") };
        let k = m.min(n);
        let columns = if self.complete { m } else { k };
        let [q, r] = factors(x[0], columns)?;
        let r = if columns > k { assembled(&[(&r, 0, 0)], columns, n)? } else { r };
        Ok(Outputs::from_iter([q, r]))
    }
    /// Tall matrices: (gQ + Q S) R^-T, with S the symmetric matrix of the upper triangle of
    /// gR R^T - Q^T gQ. Others, with R1 the first m columns of R: Q gR, and Q N R1^-T added in the
    /// first m columns, with N = tril(M - M^T, -1) of M = Q^T gQ - gR R^T.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let (q, r) = (c.y(0), c.y(1));
        let &[_, m, n] = &c.shape(0)[..] else { unreachable!("matrices") };
        if self.complete && m > n {
            return Err(Error::autograd(
                "qr: there is no gradient of a complete Q of matrices with more rows than columns",
            ));
        }
        let (gq, gr) = (g.first().and_then(Option::as_ref), g.get(1).and_then(Option::as_ref));
        let by_q = gq.map(|g| product(&turned(q)?, g)).transpose()?;
        let by_r = gr.map(|g| product(g, &turned(r)?)).transpose()?;
        let difference = match (by_q, by_r) {
            (Some(q), Some(r)) => sub(&q, &r)?,
            (Some(q), None) => q,
            (None, Some(r)) => neg(&r)?,
            (None, None) => return Ok(vec![None]),
        };
        if m > n {
            let upper = neg(&triu(&difference, 0)?)?;
            let both = add(&upper, &turned(&triu(&upper, 1)?)?)?;
            let mut all = product(q, &both)?;
            if let Some(g) = gq {
                all = add(&all, g)?;
            }
            return Ok(vec![Some(solved_right(&turned(r)?, &all, false, false)?)]);
        }
        let lower = tril(&sub(&difference, &turned(&difference)?)?, -1)?;
        let first = block(r, 0..m, 0..m)?;
        let mut all = solved_right(&turned(&first)?, &product(q, &lower)?, false, false)?;
        if n > m {
            all = assembled(&[(&all, 0, 0)], m, n)?;
        }
        if let Some(g) = gr {
            all = add(&all, &product(q, g)?)?;
        }
        Ok(vec![Some(all)])
    }
}
