//! erf: the error function. Bound: `math::erf`. The gradient is 2 / sqrt(pi) exp(-x^2).

use crate::prelude::*;

/// 2 / sqrt(pi) times the integral from 0 to x of exp(-t^2).
#[derive(Clone, Copy, Debug)]
pub struct Erf;

impl Map<1> for Erf {
    const NAME: &'static str = "erf";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.erf()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * (gauss(x) * L::lit(core::f64::consts::FRAC_2_SQRT_PI))
    }
}
compile_map! { 1 Erf; }

/// exp(-x^2), relatively accurate also in the tails.
///
/// The rounding error of x^2 is an absolute error of the exponent, so it grows to many units in the
/// last place; an fma computes it exactly, and e^-d = 1 - d for so small a d.
#[inline(always)]
pub(super) fn gauss<L: Lane>(x: L) -> L {
    let s = x * x;
    let d = x.fma(x, -s);
    let y = (-s).exp();
    // Beyond the bound y is 0, and d may be infinite.
    L::select(s.lt(L::lit(1000.0)), (-d).fma(y, y), y)
}

/// The error function, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn erf<V: Value>(x: &V) -> Result<V> {
    map(Erf, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![erf(a.input("x")?)?])
}
