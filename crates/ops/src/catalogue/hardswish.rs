//! hardswish: x min(max(x + 3, 0), 6) / 6. The gradient is 0 at -3 and 1 at 3.

use crate::prelude::*;

/// x relu6(x + 3) / 6
#[derive(Clone, Copy, Debug)]
pub struct Hardswish;

impl Map<1> for Hardswish {
    const NAME: &'static str = "hardswish";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        // Divided first: the product with 6 would overflow for large x.
        let gate = (x + L::lit(3.0)).max(L::lit(0.0)).min(L::lit(6.0));
        x * (gate / L::lit(6.0))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let three = L::lit(3.0);
        let inside = g * (x / three + L::lit(0.5));
        let left = L::select(x.le(-three), L::lit(0.0), inside);
        L::select(x.ge(three), g, left)
    }
}
compile_map! { 1 Hardswish; }

/// x relu6(x + 3) / 6, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn hardswish<V: Value>(x: &V) -> Result<V> {
    map(Hardswish, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![hardswish(a.input("x")?)?])
}
