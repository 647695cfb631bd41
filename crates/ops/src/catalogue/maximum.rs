//! maximum: the larger of two. Exact; NaN propagates; +0 is larger than -0. A tie gives each side
//! half of the gradient.

use crate::prelude::*;

/// The larger of x and y.
#[derive(Clone, Copy, Debug)]
pub struct Maximum;

impl Map<2> for Maximum {
    const NAME: &'static str = "maximum";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x.max(y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        let lost = if i == 0 { x.lt(y) } else { y.lt(x) };
        let shared = L::select(x.eq(y), g * L::lit(0.5), g);
        L::select(lost, L::lit(0.0), shared)
    }
}
compile_map! { 2 Maximum; }

impl IntMap<2> for Maximum {
    const NAME: &'static str = "maximum";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.max(y)
    }
}
compile_int_map! { 2 Maximum; }

/// The larger of x and y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn maximum<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Maximum, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![maximum(&x, &y)?])
}
