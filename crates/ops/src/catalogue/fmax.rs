//! fmax: the larger of two, and the other one where one is NaN. A tie gives each side half
//! of the gradient.

use crate::prelude::*;

/// The larger of x and y, NaN being missing.
#[derive(Clone, Copy, Debug)]
pub struct Fmax;

impl Map<2> for Fmax {
    const NAME: &'static str = "fmax";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::select(x.is_nan(), y, L::select(y.is_nan(), x, x.max(y)))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        let first = x.ge(y) | y.is_nan();
        let zero = L::lit(0.0);
        let g = L::select(x.eq(y), g * L::lit(0.5), g);
        let (own, other) = if i == 0 { (g, zero) } else { (zero, g) };
        L::select(x.eq(y), g, L::select(first, own, other))
    }
}
compile_map! { 2 Fmax; }

impl IntMap<2> for Fmax {
    const NAME: &'static str = "fmax";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.max(y)
    }
}
compile_int_map! { 2 Fmax; }

/// The larger of x and y, elementwise, operands broadcast; a number where one of them is one.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn fmax<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Fmax, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![fmax(&x, &y)?])
}
