//! Matrix exponentials by scaling and squaring of Taylor polynomials, and their gradient.
//!
//! How often a matrix is halved depends on its norm, and so differs within a batch; all are squared
//! [`MOST`] times, and those that were halved less often keep their result after that.

use super::{assembled, block, eye, product, turned};
use crate::array;
use crate::catalogue::{abs, add, amax, expand, gt, sum, where_};
use crate::prelude::*;

/// The most halvings: norms up to 2^16.
const MOST: usize = 16;

/// How often a matrix of this norm is halved until its norm is at most 1; NaN if too often.
#[derive(Clone, Copy, Debug)]
struct Halvings;

impl Map<1> for Halvings {
    const NAME: &'static str = "matrix_exp_halvings";
    #[inline(always)]
    fn lane<L: Lane>(&self, [norm]: [L; 1]) -> L {
        let (zero, most) = (L::lit(0.0), L::lit(MOST as f64));
        let times = norm.log2().ceil().at_least(zero);
        L::select(times.le(most), times, L::lit(f64::NAN))
    }
}
compile_map! { 1 Halvings; }

/// x / 2^n
#[derive(Clone, Copy, Debug)]
struct Halved;

impl Map<2> for Halved {
    const NAME: &'static str = "matrix_exp_halved";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, n]: [L; 2]) -> L {
        x * (-n).exp2()
    }
}
compile_map! { 2 Halved; }

/// c0 I + c1 x + c2 y + c3 z: four terms of a series.
#[derive(Clone, Copy, Debug)]
struct Terms {
    c: [f64; 4],
}

impl Map<4> for Terms {
    const NAME: &'static str = "matrix_exp_terms";
    #[inline(always)]
    fn lane<L: Lane>(&self, [unit, x, y, z]: [L; 4]) -> L {
        let [a, b, c, d] = self.c.map(L::lit);
        a.fma(unit, b.fma(x, c.fma(y, d * z)))
    }
}
compile_map! { 4 Terms; }

/// The terms of exp beyond which they are below the rounding of numbers near 1, for norms of at
/// most 1: 1/12! and 1/20!.
fn terms(dtype: DType) -> usize {
    if dtype == DType::F64 { 20 } else { 12 }
}

fn exponential<B: Backend>(a: &Array<B>) -> Result<Array<B>> {
    let n = a.shape()[1];
    let norm = amax(&sum(&abs(a)?, Some(&[1]), true)?, Some(&[2]), true)?;
    let halvings = array::map(&Halvings, [&norm])?;
    let x = array::map(&Halved, [a, &halvings])?;
    let square = product(&x, &x)?;
    let cube = product(&square, &x)?;
    let fourth = product(&square, &square)?;
    let unit = expand(&eye(a, n, n)?, a.shape())?;
    let mut inverse = vec![1.0];
    for i in 1..terms(a.dtype()) {
        inverse.push(inverse[i - 1] / i as f64);
    }
    // The last terms first (Paterson and Stockmeyer 1973).
    let mut y: Option<Array<B>> = None;
    for c in inverse.chunks_exact(4).rev() {
        let own = array::map(&Terms { c: [c[0], c[1], c[2], c[3]] }, [&unit, &x, &square, &cube])?;
        y = Some(match y {
            Some(y) => add(&own, &product(&fourth, &y)?)?,
            None => own,
        });
    }
    let mut y = y.expect("some terms");
    for i in 0..MOST {
        let more = gt(&halvings, &halvings.scalar_like(i as f64)?)?;
        y = where_(&more, &product(&y, &y)?, &y)?;
    }
    Ok(y)
}

/// The exponentials of matrices [b, n, n], n not 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct MatrixExp;

impl Op for MatrixExp {
    fn name(&self) -> &'static str {
        "matrix_exp"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([exponential(x[0])?]))
    }
    /// The upper right block of exp([A^T, g; 0, A^T]) (Mathias 1996).
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("an exponential is one result");
        let a = turned(c.x(0))?;
        let n = a.shape()[1];
        let both = assembled(&[(&a, 0, 0), (g, 0, n), (&a, n, n)], 2 * n, 2 * n)?;
        let all = V::apply(MatrixExp, &[&both])?;
        Ok(vec![Some(block(&all, 0..n, n..2 * n)?)])
    }
}
