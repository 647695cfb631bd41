//! huber_loss: half the square of the difference up to `delta`, and linear from there on.

use super::reduction::{Reduced, Reduction, reduce, reduction, sign};
use crate::prelude::*;

/// With d = |x - t|: d^2 / 2 where d < delta, else delta (d - delta / 2).
#[derive(Clone, Copy, Debug)]
pub struct HuberLoss {
    /// The bound of the quadratic part.
    pub delta: f64,
}

impl Map<2> for HuberLoss {
    const NAME: &'static str = "huber_loss";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        let (d, delta, half) = ((x - t).abs(), L::lit(self.delta), L::lit(0.5));
        L::select(d.lt(delta), half * d * d, delta * (d - half * delta))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        let (e, delta) = (if i == 0 { x - t } else { t - x }, L::lit(self.delta));
        g * L::select(e.abs().lt(delta), e, delta * sign(e))
    }
}
compile_map! { 2 HuberLoss; }
compile_rows! { 2 Reduced<HuberLoss>; }

/// With d = |x - target|: d^2 / 2 where d < delta, else delta (d - delta / 2); elementwise and
/// reduced; operands broadcast.
///
/// # Errors
/// `InvalidArgument` if `delta` is not above 0; `ShapeMismatch` if the shapes do not broadcast;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn huber_loss<V: Value>(x: &V, target: &V, reduction: Reduction, delta: f64) -> Result<V> {
    autocast!("huber_loss", x, target => huber_loss(x, target, reduction, delta));
    if delta.is_nan() || delta <= 0.0 {
        return Err(Error::argument(format!("huber_loss: delta is {delta}; it must be above 0")));
    }
    reduce(HuberLoss { delta }, [x, target], reduction)
}

/// By name: operands x and target; attributes reduction and delta.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![huber_loss(a.input("x")?, a.input("target")?, reduction(a)?, a.f64("delta")?)?])
}
