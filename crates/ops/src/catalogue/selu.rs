//! selu: scale * elu(x, alpha), with the two constants that keep mean 0 and variance 1.

use crate::prelude::*;

/// scale * (x, or alpha (e^x - 1) below zero)
#[derive(Clone, Copy, Debug)]
pub struct Selu;

impl Map<1> for Selu {
    const NAME: &'static str = "selu";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let zero = L::lit(0.0);
        L::select(x.le(zero), x.min(zero).expm1() * L::lit(SCALE * ALPHA), x * L::lit(SCALE))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let zero = L::lit(0.0);
        let below = g * (x.min(zero).exp() * L::lit(SCALE * ALPHA));
        L::select(x.gt(zero), g * L::lit(SCALE), below)
    }
}
compile_map! { 1 Selu; }

/// The fixed point of Klambauer et al., "Self-normalizing neural networks", 2017: with these two,
/// outputs have mean 0 and variance 1 if the inputs have.
const ALPHA: f64 = 1.6732632423543772;
/// See [`ALPHA`].
const SCALE: f64 = 1.0507009873554805;

/// The scaled exponential linear unit, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn selu<V: Value>(x: &V) -> Result<V> {
    map(Selu, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![selu(a.input("x")?)?])
}
