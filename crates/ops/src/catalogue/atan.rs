//! atan: the inverse tangent. Bound: `math::atan`.

use crate::prelude::*;

/// atan x
#[derive(Clone, Copy, Debug)]
pub struct Atan;

impl Map<1> for Atan {
    const NAME: &'static str = "atan";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.atan()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g / (x * x + L::lit(1.0))
    }
}
compile_map! { 1 Atan; }

/// The inverse tangent, elementwise, in radians.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn atan<V: Value>(x: &V) -> Result<V> {
    map(Atan, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![atan(a.input("x")?)?])
}
