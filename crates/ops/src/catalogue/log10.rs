//! log10: the logarithm to base 10. -inf at 0, NaN below. Bound: `math::log10`.

use crate::prelude::*;

/// log10 x
#[derive(Clone, Copy, Debug)]
pub struct Log10;

impl Map<1> for Log10 {
    const NAME: &'static str = "log10";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.log10()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g / x * L::lit(core::f64::consts::LOG10_E)
    }
}
compile_map! { 1 Log10; }

/// The logarithm to base 10, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn log10<V: Value>(x: &V) -> Result<V> {
    map(Log10, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log10(a.input("x")?)?])
}
