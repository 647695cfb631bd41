//! erfinv: the inverse of the error function. Infinite at -1 and 1, NaN outside. Bound:
//! `math::erfinv`.

use crate::prelude::*;

/// The inverse of erf.
#[derive(Clone, Copy, Debug)]
pub struct Erfinv;

impl Map<1> for Erfinv {
    const NAME: &'static str = "erfinv";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.erfinv()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * (L::lit(1.0 / core::f64::consts::FRAC_2_SQRT_PI) * (y * y).exp())
    }
}
compile_map! { 1 Erfinv; }

/// The inverse of the error function, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn erfinv<V: Value>(x: &V) -> Result<V> {
    map(Erfinv, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![erfinv(a.input("x")?)?])
}
