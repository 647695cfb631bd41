//! copysign: the magnitude of x with the sign of y; NaN has none, and counts as positive. Exact.
//! The gradient at x = 0 and by y is 0.

use crate::prelude::*;

/// |x| with the sign of y.
#[derive(Clone, Copy, Debug)]
pub struct Copysign;

impl Map<2> for Copysign {
    const NAME: &'static str = "copysign";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x.copysign(y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        let zero = L::lit(0.0);
        if i == 1 {
            return zero;
        }
        let one = L::lit(1.0);
        L::select(x.eq(zero), zero, g * (one.copysign(x) * one.copysign(y)))
    }
}
compile_map! { 2 Copysign; }

/// The magnitude of x with the sign of y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn copysign<V: Value>(x: &V, y: &V) -> Result<V> {
    map(Copysign, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![copysign(&x, &y)?])
}
