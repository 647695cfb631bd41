//! Cholesky factors, and their gradient (Murray 2016).

use super::triangular::{self, solved, solved_right};
use super::{LEAF, assembled, block, half, product, turned};
use crate::array;
use crate::catalogue::{diagonal, mul, sub, tril, unsqueeze};
use crate::prelude::*;

/// x - (l / p) r, and NaN where the pivot p is not positive: then so is all that depends on it.
#[derive(Clone, Copy, Debug)]
struct Downdate;

impl Map<4> for Downdate {
    const NAME: &'static str = "cholesky_step";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, l, r, p]: [L; 4]) -> L {
        L::select(p.gt(L::lit(0.0)), (-(l / p)).fma(r, x), L::lit(f64::NAN))
    }
}
compile_map! { 4 Downdate; }

/// x / sqrt(d), below and on the diagonal.
#[derive(Clone, Copy, Debug)]
struct ByRoot;

impl Map<2> for ByRoot {
    const NAME: &'static str = "cholesky_scale";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, d]: [L; 2]) -> L {
        x / d.sqrt()
    }
}
compile_map! { 2 ByRoot; }

/// The lower factors of matrices [b, n, n], of which only the lower triangle is read.
pub(super) fn factor<B: Backend>(a: &Array<B>) -> Result<Array<B>> {
    let n = a.shape()[1];
    if n <= LEAF {
        return small(a);
    }
    let h = half(n);
    let first = factor(&block(a, 0..h, 0..h)?)?;
    let below = turned(&triangular::solve(&first, &turned(&block(a, h..n, 0..h)?)?, false, false)?)?;
    let rest = sub(&block(a, h..n, h..n)?, &product(&below, &turned(&below)?)?)?;
    assembled(&[(&first, 0, 0), (&below, h, 0), (&factor(&rest)?, h, h)], n, n)
}

/// One column after the other; roots are taken at the end.
fn small<B: Backend>(a: &Array<B>) -> Result<Array<B>> {
    let n = a.shape()[1];
    let mut rest = a.clone();
    let mut columns = Vec::with_capacity(n);
    for k in 0..n {
        let left = n - k;
        if left > 1 {
            let column = block(&rest, 1..left, 0..1)?;
            let parts =
                [&block(&rest, 1..left, 1..left)?, &column, &turned(&column)?, &block(&rest, 0..1, 0..1)?];
            let next = array::map(&Downdate, parts)?;
            columns.push((block(&rest, 0..left, 0..1)?, k));
            rest = next;
        } else {
            columns.push((rest.clone(), k));
        }
    }
    let all = assembled(&columns.iter().map(|(c, k)| (c, *k, *k)).collect::<Vec<_>>(), n, n)?;
    array::map(&ByRoot, [&all, &unsqueeze(&diagonal(&all, 0, 1, 2)?, 1)?])
}

/// The lower factor of symmetric positive definite matrices [b, n, n]; n is not 0.
#[derive(Clone, Copy, Debug)]
pub(in crate::catalogue) struct Cholesky;

impl Op for Cholesky {
    fn name(&self) -> &'static str {
        "cholesky"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([factor(x[0])?]))
    }
    /// L^-T P L^-1, with P the symmetric matrix of half the lower triangle of L^T g.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a factorisation has one result");
        let l = c.y(0);
        let inner = product(&turned(l)?, g)?;
        let lower = tril(&inner, 0)?;
        let both = crate::catalogue::add(&lower, &turned(&tril(&inner, -1)?)?)?;
        let middle = mul(&both, &both.scalar_like(0.5)?)?;
        let left = solved(&turned(l)?, &middle, true, false)?;
        Ok(vec![Some(solved_right(l, &left, false, false)?)])
    }
}
