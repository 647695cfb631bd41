//! trunc: x without its fraction. Exact; the sign of zero stays. The gradient is 0.

use crate::prelude::*;

/// x without its fraction.
#[derive(Clone, Copy, Debug)]
pub struct Trunc;

impl Map<1> for Trunc {
    const NAME: &'static str = "trunc";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.trunc()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Trunc; }

impl IntMap<1> for Trunc {
    const NAME: &'static str = "trunc";
    /// Integers are whole.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x
    }
}
compile_int_map! { 1 Trunc; }

/// x without its fraction, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn trunc<V: Value>(x: &V) -> Result<V> {
    map_any(Trunc, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![trunc(a.input("x")?)?])
}
