//! ndtr: the normal distribution function (1 + erf(x / sqrt(2))) / 2. Bound: `math::ndtr`.

use super::erf::gauss;
use crate::prelude::*;

/// The normal distribution function.
#[derive(Clone, Copy, Debug)]
pub struct Ndtr;

impl Map<1> for Ndtr {
    const NAME: &'static str = "ndtr";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.ndtr()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let scale = 0.5 * core::f64::consts::FRAC_2_SQRT_PI * core::f64::consts::FRAC_1_SQRT_2;
        g * (gauss(x * L::lit(core::f64::consts::FRAC_1_SQRT_2)) * L::lit(scale))
    }
}
compile_map! { 1 Ndtr; }

/// The normal distribution function, elementwise, relatively accurate also far to the left.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn ndtr<V: Value>(x: &V) -> Result<V> {
    map(Ndtr, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![ndtr(a.input("x")?)?])
}
