//! exp: e to the power of x. Bound: `math::exp`. The gradient is the result itself.

use crate::prelude::*;

/// e^x
#[derive(Clone, Copy, Debug)]
pub struct Exp;

impl Map<1> for Exp {
    const NAME: &'static str = "exp";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.exp()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * y
    }
}
compile_map! { 1 Exp; }

/// e^x, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn exp<V: Value>(x: &V) -> Result<V> {
    map(Exp, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![exp(a.input("x")?)?])
}
