//! sin: the sine of an angle in radians. Bound: `math::sin`.

use crate::prelude::*;

/// sin x
#[derive(Clone, Copy, Debug)]
pub struct Sin;

impl Map<1> for Sin {
    const NAME: &'static str = "sin";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::ANGLES;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.sin()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * x.cos()
    }
}
compile_map! { 1 Sin; }

/// The sine, elementwise, in radians; accurate for arguments of any size.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn sin<V: Value>(x: &V) -> Result<V> {
    map(Sin, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![sin(a.input("x")?)?])
}
