//! tanh: the hyperbolic tangent. Bound: `math::tanh`. The gradient is 1 - result^2.

use crate::prelude::*;

/// tanh x
#[derive(Clone, Copy, Debug)]
pub struct Tanh;

impl Map<1> for Tanh {
    const NAME: &'static str = "tanh";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.tanh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        // As a product, 1 - y^2 does not round y^2 first.
        let one = L::lit(1.0);
        g * ((one - y) * (one + y))
    }
}
compile_map! { 1 Tanh; }

/// The hyperbolic tangent, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn tanh<V: Value>(x: &V) -> Result<V> {
    map(Tanh, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tanh(a.input("x")?)?])
}
