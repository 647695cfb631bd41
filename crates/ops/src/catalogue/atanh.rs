//! atanh: the inverse hyperbolic tangent. Infinite at -1 and 1, NaN outside. Bound: `math::atanh`.

use crate::prelude::*;

/// The inverse of tanh.
#[derive(Clone, Copy, Debug)]
pub struct Atanh;

impl Map<1> for Atanh {
    const NAME: &'static str = "atanh";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.atanh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let one = L::lit(1.0);
        g / ((one - x) * (one + x))
    }
}
compile_map! { 1 Atanh; }

/// The inverse hyperbolic tangent, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn atanh<V: Value>(x: &V) -> Result<V> {
    map(Atanh, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![atanh(a.input("x")?)?])
}
