//! hardsigmoid: min(max(x + 3, 0), 6) / 6. The gradient is 0 at both ends.

use crate::prelude::*;

/// relu6(x + 3) / 6
#[derive(Clone, Copy, Debug)]
pub struct Hardsigmoid;

impl Map<1> for Hardsigmoid {
    const NAME: &'static str = "hardsigmoid";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        (x + L::lit(3.0)).max(L::lit(0.0)).min(L::lit(6.0)) / L::lit(6.0)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let inside = x.abs().lt(L::lit(3.0));
        L::select(inside, g / L::lit(6.0), L::lit(0.0))
    }
}
compile_map! { 1 Hardsigmoid; }

/// relu6(x + 3) / 6, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn hardsigmoid<V: Value>(x: &V) -> Result<V> {
    map(Hardsigmoid, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![hardsigmoid(a.input("x")?)?])
}
