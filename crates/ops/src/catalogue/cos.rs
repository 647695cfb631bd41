//! cos: the cosine of an angle in radians. Bound: `math::cos`.

use crate::prelude::*;

/// cos x
#[derive(Clone, Copy, Debug)]
pub struct Cos;

impl Map<1> for Cos {
    const NAME: &'static str = "cos";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::ANGLES;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.cos()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        -g * x.sin()
    }
}
compile_map! { 1 Cos; }

/// The cosine, elementwise, in radians; accurate for arguments of any size.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn cos<V: Value>(x: &V) -> Result<V> {
    map(Cos, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cos(a.input("x")?)?])
}
