//! mse_loss: the squared difference.

use super::reduction::{Reduced, Reduction, reduce, reduction};
use crate::prelude::*;

/// (x - t)^2
#[derive(Clone, Copy, Debug)]
pub struct MseLoss;

impl Map<2> for MseLoss {
    const NAME: &'static str = "mse_loss";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        let d = x - t;
        d * d
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        let d = if i == 0 { x - t } else { t - x };
        g * (d + d)
    }
}
compile_map! { 2 MseLoss; }
compile_rows! { 2 Reduced<MseLoss>; }

/// (x - target)^2, elementwise and reduced; operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn mse_loss<V: Value>(x: &V, target: &V, reduction: Reduction) -> Result<V> {
    autocast!("mse_loss", x, target => mse_loss(x, target, reduction));
    reduce(MseLoss, [x, target], reduction)
}

/// By name: operands x and target; attribute reduction.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![mse_loss(a.input("x")?, a.input("target")?, reduction(a)?)?])
}
