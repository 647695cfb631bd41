//! acosh: the inverse hyperbolic cosine. NaN below 1. Bound: `math::acosh`.

use crate::prelude::*;

/// The inverse of cosh.
#[derive(Clone, Copy, Debug)]
pub struct Acosh;

impl Map<1> for Acosh {
    const NAME: &'static str = "acosh";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.acosh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let one = L::lit(1.0);
        g / ((x - one).sqrt() * (x + one).sqrt())
    }
}
compile_map! { 1 Acosh; }

/// The inverse hyperbolic cosine, elementwise; NaN below 1.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn acosh<V: Value>(x: &V) -> Result<V> {
    map(Acosh, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![acosh(a.input("x")?)?])
}
