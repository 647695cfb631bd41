//! kl_div: the Kullback-Leibler divergence of log-probabilities from a target distribution.

use super::reduction::{Reduced, Reduction, reduce_any, reduction};
use crate::prelude::*;

/// t (log t - x), and -t x where t is 0.
#[derive(Clone, Copy, Debug)]
pub struct KlDiv;

/// exp(t) (t - x)
#[derive(Clone, Copy, Debug)]
pub struct KlDivLog;

impl Map<2> for KlDiv {
    const NAME: &'static str = "kl_div";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        L::select(t.eq(L::lit(0.0)), -t * x, t * (t.log() - x))
    }
    /// By x: -t. By t: log t + 1 - x.
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        if i == 0 { g * -t } else { g * (t.log() + L::lit(1.0) - x) }
    }
}
compile_map! { 2 KlDiv; }
compile_rows! { 2 Reduced<KlDiv>; }

impl Map<2> for KlDivLog {
    const NAME: &'static str = "kl_div";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        t.exp() * (t - x)
    }
    /// By x: -exp(t). By t: exp(t) (t + 1 - x).
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        if i == 0 { g * -t.exp() } else { g * (t.exp() * (t - x + L::lit(1.0))) }
    }
}
compile_map! { 2 KlDivLog; }
compile_rows! { 2 Reduced<KlDivLog>; }

/// target (log target - x), elementwise and reduced; operands broadcast. A target of 0
/// contributes 0. With `log_target` the target holds logarithms. [`Reduction::BatchMean`] gives the
/// divergence's mathematical meaning.
///
/// x: log-probabilities
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn kl_div<V: Value>(x: &V, target: &V, reduction: Reduction, log_target: bool) -> Result<V> {
    autocast!("kl_div", x, target => kl_div(x, target, reduction, log_target));
    if log_target { reduce_any(KlDivLog, [x, target], reduction) } else { reduce_any(KlDiv, [x, target], reduction) }
}

/// By name: operands x and target; attributes reduction and log_target.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![kl_div(a.input("x")?, a.input("target")?, reduction(a)?, a.bool("log_target")?)?])
}
