//! acos: the inverse cosine. NaN outside of -1..=1. Bound: `math::acos`.

use crate::prelude::*;

/// acos x
#[derive(Clone, Copy, Debug)]
pub struct Acos;

impl Map<1> for Acos {
    const NAME: &'static str = "acos";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.acos()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // Factored: 1 - x^2 would cancel near 1.
        let one = L::lit(1.0);
        -g / ((one - x) * (one + x)).sqrt()
    }
}
compile_map! { 1 Acos; }

/// The inverse cosine, elementwise, in radians.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn acos<V: Value>(x: &V) -> Result<V> {
    map(Acos, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![acos(a.input("x")?)?])
}
