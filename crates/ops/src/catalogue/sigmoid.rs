//! sigmoid: 1 / (1 + exp(-x)). Bound: `math::sigmoid`. The gradient is y (1 - y).

use crate::prelude::*;

/// 1 / (1 + e^-x)
#[derive(Clone, Copy, Debug)]
pub struct Sigmoid;

impl Map<1> for Sigmoid {
    const NAME: &'static str = "sigmoid";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.sigmoid()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * (y * (L::lit(1.0) - y))
    }
}
compile_map! { 1 Sigmoid; }

/// 1 / (1 + e^-x), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn sigmoid<V: Value>(x: &V) -> Result<V> {
    map(Sigmoid, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![sigmoid(a.input("x")?)?])
}
