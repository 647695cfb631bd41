//! erfcx: exp(x^2) erfc(x), the scaled complementary error function. Bound: `math::erfcx`.

use crate::prelude::*;

/// exp(x^2) erfc(x)
#[derive(Clone, Copy, Debug)]
pub struct Erfcx;

impl Map<1> for Erfcx {
    const NAME: &'static str = "erfcx";
    const SAVES: Saves = Saves::BOTH;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.erfcx()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], y: L, g: L) -> L {
        g * (x + x).fma(y, L::lit(-core::f64::consts::FRAC_2_SQRT_PI))
    }
}
compile_map! { 1 Erfcx; }

/// exp(x^2) erfc(x), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn erfcx<V: Value>(x: &V) -> Result<V> {
    map(Erfcx, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![erfcx(a.input("x")?)?])
}
