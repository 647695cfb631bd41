//! sqrt: the square root. Correctly rounded; NaN below 0, -0 at -0. The gradient at 0 is infinite.

use crate::prelude::*;

/// The square root of x.
#[derive(Clone, Copy, Debug)]
pub struct Sqrt;

impl Map<1> for Sqrt {
    const NAME: &'static str = "sqrt";
    const SAVES: Saves = Saves::OUTPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.sqrt()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * L::lit(0.5) / y
    }
}
compile_map! { 1 Sqrt; }

/// The square root, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn sqrt<V: Value>(x: &V) -> Result<V> {
    map(Sqrt, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![sqrt(a.input("x")?)?])
}
