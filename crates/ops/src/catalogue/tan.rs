//! tan: the tangent of an angle in radians. Bound: `math::tan`. The gradient is 1 + result^2.

use crate::prelude::*;

/// tan x
#[derive(Clone, Copy, Debug)]
pub struct Tan;

impl Map<1> for Tan {
    const NAME: &'static str = "tan";
    const SAVES: Saves = Saves::OUTPUTS;
    const HINTS: Hints = Hints::ANGLES;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.tan()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * (y * y + L::lit(1.0))
    }
}
compile_map! { 1 Tan; }

/// The tangent, elementwise, in radians; accurate for arguments of any size.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn tan<V: Value>(x: &V) -> Result<V> {
    map(Tan, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tan(a.input("x")?)?])
}
