//! relu6: x clamped to 0..=6. Exact. The gradient is 0 at both ends; NaN propagates.

use crate::prelude::*;

/// min(max(x, 0), 6)
#[derive(Clone, Copy, Debug)]
pub struct Relu6;

impl Map<1> for Relu6 {
    const NAME: &'static str = "relu6";
    const SAVES: Saves = Saves::OUTPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.max(L::lit(0.0)).min(L::lit(6.0))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        // NaN is neither end, and its gradient is g, so that it does not vanish on the way back.
        let ends = y.le(L::lit(0.0)) | y.ge(L::lit(6.0));
        L::select(ends, L::lit(0.0), g)
    }
}
compile_map! { 1 Relu6; }

/// min(max(x, 0), 6), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn relu6<V: Value>(x: &V) -> Result<V> {
    map(Relu6, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![relu6(a.input("x")?)?])
}
