//! round: the nearest whole number, halves to even. Exact; the sign of zero stays. The gradient
//! is 0.

use crate::prelude::*;

/// The nearest whole number, halves to even.
#[derive(Clone, Copy, Debug)]
pub struct Round;

impl Map<1> for Round {
    const NAME: &'static str = "round";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.round()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Round; }

impl IntMap<1> for Round {
    const NAME: &'static str = "round";
    /// Integers are whole.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x
    }
}
compile_int_map! { 1 Round; }

/// The nearest whole number, halves to even, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn round<V: Value>(x: &V) -> Result<V> {
    map_any(Round, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![round(a.input("x")?)?])
}
