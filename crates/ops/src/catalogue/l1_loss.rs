//! l1_loss: the magnitude of the difference. The gradient where both are equal is 0.

use super::reduction::{Reduced, Reduction, reduce, reduction, sign};
use crate::prelude::*;

/// |x - t|
#[derive(Clone, Copy, Debug)]
pub struct L1Loss;

impl Map<2> for L1Loss {
    const NAME: &'static str = "l1_loss";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, t]: [L; 2]) -> L {
        (x - t).abs()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, t]: [L; 2], _: L, g: L) -> L {
        g * sign(if i == 0 { x - t } else { t - x })
    }
}
compile_map! { 2 L1Loss; }
compile_rows! { 2 Reduced<L1Loss>; }

/// |x - target|, elementwise and reduced; operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn l1_loss<V: Value>(x: &V, target: &V, reduction: Reduction) -> Result<V> {
    autocast!("l1_loss", x, target => l1_loss(x, target, reduction));
    reduce(L1Loss, [x, target], reduction)
}

/// By name: operands x and target; attribute reduction.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![l1_loss(a.input("x")?, a.input("target")?, reduction(a)?)?])
}
