//! softmax: exp(x - max) / sum(exp(x - max)) along an axis, as a product with the rounded inverse
//! of the sum: one division per row, as one per element would cost as much as its exponential. A
//! row of -inf only gives NaN.

use super::{mul, sub, sum};
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: the maximum, then the inverse of the sum of exp(x - maximum).
#[derive(Clone, Copy, Debug)]
pub struct Softmax;

impl RowFormula<1> for Softmax {
    const NAME: &'static str = "softmax";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;
    const SAVES: Saves = Saves::OUTPUTS;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]).exp() }
    }
    /// The sum is at least 1: the largest element's term is 1.
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 0 { folded } else { L::lit(1.0) / folded }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, x: [L; 1], s: [L; STATS], n: L) -> L {
        self.out_of_term(self.term(1, x, s, n), s, n)
    }
    const KEEPS: bool = true;
    #[inline(always)]
    fn out_of_term<L: Lane>(&self, term: L, s: [L; STATS], _: L) -> L {
        term * s[1]
    }
}
impl Rows<1> for Softmax {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        Ok(vec![Some(rows(SoftmaxGrad, axes, [c.y(0), g])?)])
    }
}
compile_rows! { 1 Softmax; }

/// y (g - sum(g y)): the gradient from the result y. Statistic: the sum.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxGrad;

impl RowFormula<2> for SoftmaxGrad {
    const NAME: &'static str = "softmax_grad";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [y, g]: [L; 2], _: [L; STATS], _: L) -> L {
        y * g
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [y, g]: [L; 2], s: [L; STATS], _: L) -> L {
        y * (g - s[0])
    }
}
impl Rows<2> for SoftmaxGrad {
    /// With h for the gradient: dg = y (h - sum(h y)), dy = h (g - sum(g y)) - g sum(h y).
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, h: &V) -> Result<Vec<Option<V>>> {
        let (y, g, dims) = (c.x(0), c.x(1), sum::as_dims(axes));
        let along = |v: &V| sum(&mul(v, y)?, Some(&dims), true);
        let dy = c.want(0, || sub(&mul(h, &sub(g, &along(g)?)?)?, &mul(g, &along(h)?)?))?;
        let dg = c.want(1, || rows(SoftmaxGrad, axes, [y, h]))?;
        Ok(vec![dy, dg])
    }
}
compile_rows! { 2 SoftmaxGrad; }

/// Softmax along `dim`: every row becomes positive numbers that sum to 1.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn softmax<V: Value>(x: &V, dim: isize) -> Result<V> {
    let axes = sum::axes("softmax", x.shape(), Some(&[dim]))?;
    rows(Softmax, &axes, [x])
}

/// By name: operand x; attribute dim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![softmax(&a.converted()?, a.dim("dim")?)?])
}
