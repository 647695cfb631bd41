//! lgamma: the logarithm of |gamma(x)|. Bound: `math::lgamma`. The gradient is digamma.

use crate::prelude::*;

/// log |gamma(x)|
#[derive(Clone, Copy, Debug)]
pub struct Lgamma;

impl Map<1> for Lgamma {
    const NAME: &'static str = "lgamma";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.lgamma()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * x.digamma()
    }
}
compile_map! { 1 Lgamma; }

/// The logarithm of |gamma(x)|, elementwise; infinite at 0 and the negative whole numbers.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn lgamma<V: Value>(x: &V) -> Result<V> {
    map(Lgamma, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![lgamma(a.input("x")?)?])
}
