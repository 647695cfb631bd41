//! erfc: 1 - erf(x), with all its digits. Bound: `math::erfc`. The gradient is -2 / sqrt(pi)
//! exp(-x^2).

use super::erf::gauss;
use crate::prelude::*;

/// 1 - erf(x)
#[derive(Clone, Copy, Debug)]
pub struct Erfc;

impl Map<1> for Erfc {
    const NAME: &'static str = "erfc";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.erfc()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * (gauss(x) * L::lit(-core::f64::consts::FRAC_2_SQRT_PI))
    }
}
compile_map! { 1 Erfc; }

/// 1 - erf(x), elementwise, relatively accurate also where it is small.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn erfc<V: Value>(x: &V) -> Result<V> {
    map(Erfc, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![erfc(a.input("x")?)?])
}
