//! reciprocal: 1 / x. Correctly rounded.

use crate::prelude::*;

/// 1 / x
#[derive(Clone, Copy, Debug)]
pub struct Reciprocal;

impl Map<1> for Reciprocal {
    const NAME: &'static str = "reciprocal";
    const SAVES: Saves = Saves::OUTPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::lit(1.0) / x
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        -g * y * y
    }
}
compile_map! { 1 Reciprocal; }

/// 1 / x, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn reciprocal<V: Value>(x: &V) -> Result<V> {
    map(Reciprocal, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![reciprocal(a.input("x")?)?])
}
