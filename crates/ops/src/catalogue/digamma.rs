//! digamma: the derivative of lgamma. Bound: `math::digamma`. The gradient is polygamma of order 1.

use crate::math::{cotangent, polygamma};
use crate::prelude::*;

/// The derivative of lgamma.
#[derive(Clone, Copy, Debug)]
pub struct Digamma;

impl Map<1> for Digamma {
    const NAME: &'static str = "digamma";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.digamma()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * polygamma(1, &cotangent(1), x)
    }
}
compile_map! { 1 Digamma; }

/// The derivative of lgamma, elementwise; NaN at the negative whole numbers.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn digamma<V: Value>(x: &V) -> Result<V> {
    map(Digamma, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![digamma(a.input("x")?)?])
}
