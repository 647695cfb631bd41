//! smooth_l1_loss: the magnitude of the difference, with a parabola of width `beta` around 0.

use super::l1_loss::L1Loss;
use super::reduction::{Reduced, Reduction, reduce, reduction, sign};
use crate::prelude::*;

/// With d = |x - t|: d^2 / (2 beta) where d < beta, else d - beta / 2. `beta` is above 0.
#[derive(Clone, Copy, Debug)]
pub struct SmoothL1Loss {
    /// The bound of the quadratic part.
    pub beta: f64,
}

impl Map<2> for SmoothL1Loss {
    const NAME: &'static str = "smooth_l1_loss";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        let (d, beta, half) = ((x - t).abs(), L::lit(self.beta), L::lit(0.5));
        L::select(d.lt(beta), half * d * d / beta, d - half * beta)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        let (e, beta) = (if i == 0 { x - t } else { t - x }, L::lit(self.beta));
        g * L::select(e.abs().lt(beta), e / beta, sign(e))
    }
}
compile_map! { 2 SmoothL1Loss; }
compile_rows! { 2 Reduced<SmoothL1Loss>; }

/// With d = |x - target|: d^2 / (2 beta) where d < beta, else d - beta / 2; elementwise and
/// reduced; operands broadcast. With `beta` 0 it is the l1_loss.
///
/// # Errors
/// `InvalidArgument` if `beta` is negative; `ShapeMismatch` if the shapes do not broadcast;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn smooth_l1_loss<V: Value>(x: &V, target: &V, reduction: Reduction, beta: f64) -> Result<V> {
    autocast!("smooth_l1_loss", x, target => smooth_l1_loss(x, target, reduction, beta));
    if beta.is_nan() || beta < 0.0 {
        return Err(Error::argument(format!("smooth_l1_loss: beta is {beta}; it must not be negative")));
    }
    if beta == 0.0 {
        return reduce(L1Loss, [x, target], reduction);
    }
    reduce(SmoothL1Loss { beta }, [x, target], reduction)
}

/// By name: operands x and target; attributes reduction and beta.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![smooth_l1_loss(a.input("x")?, a.input("target")?, reduction(a)?, a.f64("beta")?)?])
}
