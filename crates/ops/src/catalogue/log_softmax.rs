//! log_softmax: x - max - log(sum(exp(x - max))) along an axis. A row of -inf only gives NaN.

use super::{exp, mul, neg, sub, sum};
use crate::prelude::*;
use crate::rows::STATS;

/// Statistics: the maximum, then the logarithm of the sum of exp(x - maximum).
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax;

impl RowFormula<1> for LogSoftmax {
    const NAME: &'static str = "log_softmax";
    const FOLDS: &'static [Fold] = &[Fold::Max, Fold::Sum];
    const PLAIN: bool = true;
    const OUT: RowOut = RowOut::Each;
    const SAVES: Saves = Saves::OUTPUTS;

    #[inline(always)]
    fn term<L: Lane>(&self, k: usize, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        if k == 0 { x } else { (x - s[0]).exp() }
    }
    #[inline(always)]
    fn finish<L: Lane>(&self, k: usize, folded: L, _: [L; STATS], _: L) -> L {
        if k == 0 { folded } else { folded.log() }
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [x]: [L; 1], s: [L; STATS], _: L) -> L {
        (x - s[0]) - s[1]
    }
}
impl Rows<1> for LogSoftmax {
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, g: &V) -> Result<Vec<Option<V>>> {
        Ok(vec![Some(rows(LogSoftmaxGrad, axes, [c.y(0), g])?)])
    }
}
compile_rows! { 1 LogSoftmax; }

/// g - exp(y) sum(g): the gradient from the result y. Statistic: the sum of g.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmaxGrad;

impl RowFormula<2> for LogSoftmaxGrad {
    const NAME: &'static str = "log_softmax_grad";
    const FOLDS: &'static [Fold] = &[Fold::Sum];
    const OUT: RowOut = RowOut::Each;

    #[inline(always)]
    fn term<L: Lane>(&self, _: usize, [_, g]: [L; 2], _: [L; STATS], _: L) -> L {
        g
    }
    #[inline(always)]
    fn out<L: Lane>(&self, [y, g]: [L; 2], s: [L; STATS], _: L) -> L {
        g - y.exp() * s[0]
    }
}
impl Rows<2> for LogSoftmaxGrad {
    /// With p = exp(y) and h for the gradient: dg = h - sum(h p), dy = -h p sum(g).
    fn backward<V: Value>(&self, axes: &[usize], c: &Context<V>, h: &V) -> Result<Vec<Option<V>>> {
        let dims = sum::as_dims(axes);
        let hp = mul(h, &exp(c.x(0))?)?;
        let dy = c.want(0, || neg(&mul(&hp, &sum(c.x(1), Some(&dims), true)?)?))?;
        let dg = c.want(1, || sub(h, &sum(&hp, Some(&dims), true)?))?;
        Ok(vec![dy, dg])
    }
}
compile_rows! { 2 LogSoftmaxGrad; }

/// The logarithm of the softmax along `dim`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn log_softmax<V: Value>(x: &V, dim: isize) -> Result<V> {
    let axes = sum::axes("log_softmax", x.shape(), Some(&[dim]))?;
    rows(LogSoftmax, &axes, [x])
}

/// By name: operand x; attribute dim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log_softmax(&a.converted()?, a.dim("dim")?)?])
}
