//! minimum: the smaller of two. Exact; NaN propagates; -0 is smaller than +0. A tie gives each side
//! half of the gradient.

use crate::prelude::*;

/// The smaller of x and y.
#[derive(Clone, Copy, Debug)]
pub struct Minimum;

impl Map<2> for Minimum {
    const NAME: &'static str = "minimum";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x.min(y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        let lost = if i == 0 { x.gt(y) } else { y.gt(x) };
        let shared = L::select(x.eq(y), g * L::lit(0.5), g);
        L::select(lost, L::lit(0.0), shared)
    }
}
compile_map! { 2 Minimum; }

impl IntMap<2> for Minimum {
    const NAME: &'static str = "minimum";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.min(y)
    }
}
compile_int_map! { 2 Minimum; }

/// The smaller of x and y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn minimum<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Minimum, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![minimum(&x, &y)?])
}
