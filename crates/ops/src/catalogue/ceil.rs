//! ceil: the smallest whole number not below x. Exact; the sign of zero stays. The gradient is 0.

use crate::prelude::*;

/// The smallest whole number not below x.
#[derive(Clone, Copy, Debug)]
pub struct Ceil;

impl Map<1> for Ceil {
    const NAME: &'static str = "ceil";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.ceil()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Ceil; }

impl IntMap<1> for Ceil {
    const NAME: &'static str = "ceil";
    /// Integers are whole.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x
    }
}
compile_int_map! { 1 Ceil; }

/// The smallest whole number not below x, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn ceil<V: Value>(x: &V) -> Result<V> {
    map_any(Ceil, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![ceil(a.input("x")?)?])
}
