//! expm1: exp(x) - 1, accurate for tiny x. Bound: `math::expm1`. The gradient is the result plus 1.

use crate::prelude::*;

/// e^x - 1
#[derive(Clone, Copy, Debug)]
pub struct Expm1;

impl Map<1> for Expm1 {
    const NAME: &'static str = "expm1";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.expm1()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * (y + L::lit(1.0))
    }
}
compile_map! { 1 Expm1; }

/// e^x - 1, elementwise, without the cancellation near 0.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn expm1<V: Value>(x: &V) -> Result<V> {
    map(Expm1, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![expm1(a.input("x")?)?])
}
