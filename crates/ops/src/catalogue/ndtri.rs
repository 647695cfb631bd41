//! ndtri: the inverse of the normal distribution function. NaN outside of 0..=1. Bound:
//! `math::ndtri`.

use crate::prelude::*;

/// The inverse of ndtr.
#[derive(Clone, Copy, Debug)]
pub struct Ndtri;

impl Map<1> for Ndtri {
    const NAME: &'static str = "ndtri";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.ndtri()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        // sqrt(2 pi)
        let scale = 2.0 * core::f64::consts::SQRT_2 / core::f64::consts::FRAC_2_SQRT_PI;
        g * (L::lit(scale) * (L::lit(0.5) * y * y).exp())
    }
}
compile_map! { 1 Ndtri; }

/// The inverse of the normal distribution function, elementwise: -inf at 0, inf at 1.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn ndtri<V: Value>(x: &V) -> Result<V> {
    map(Ndtri, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![ndtri(a.input("x")?)?])
}
