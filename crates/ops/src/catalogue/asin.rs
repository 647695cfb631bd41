//! asin: the inverse sine. NaN outside of -1..=1. Bound: `math::asin`.

use crate::prelude::*;

/// asin x
#[derive(Clone, Copy, Debug)]
pub struct Asin;

impl Map<1> for Asin {
    const NAME: &'static str = "asin";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.asin()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // Factored: 1 - x^2 would cancel near 1.
        let one = L::lit(1.0);
        g / ((one - x) * (one + x)).sqrt()
    }
}
compile_map! { 1 Asin; }

/// The inverse sine, elementwise, in radians.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn asin<V: Value>(x: &V) -> Result<V> {
    map(Asin, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![asin(a.input("x")?)?])
}
