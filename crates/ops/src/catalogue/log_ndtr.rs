//! log_ndtr: the logarithm of the normal distribution function. Bound: `math::log_ndtr`. The
//! gradient is sqrt(2 / pi) / erfcx(-x / sqrt(2)).

use crate::prelude::*;

/// log(ndtr(x))
#[derive(Clone, Copy, Debug)]
pub struct LogNdtr;

impl Map<1> for LogNdtr {
    const NAME: &'static str = "log_ndtr";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.log_ndtr()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let rate = core::f64::consts::FRAC_2_SQRT_PI * core::f64::consts::FRAC_1_SQRT_2;
        g * (L::lit(rate) / (x * L::lit(-core::f64::consts::FRAC_1_SQRT_2)).erfcx())
    }
}
compile_map! { 1 LogNdtr; }

/// The logarithm of the normal distribution function, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn log_ndtr<V: Value>(x: &V) -> Result<V> {
    map(LogNdtr, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log_ndtr(a.input("x")?)?])
}
