//! frac: x - trunc(x). Exact; NaN at infinity. The gradient is 1.

use crate::prelude::*;

/// x - trunc(x)
#[derive(Clone, Copy, Debug)]
pub struct Frac;

impl Map<1> for Frac {
    const NAME: &'static str = "frac";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x - x.trunc()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, g: L) -> L {
        g
    }
}
compile_map! { 1 Frac; }

/// The fraction of x with its sign, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn frac<V: Value>(x: &V) -> Result<V> {
    map(Frac, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![frac(a.input("x")?)?])
}
