//! log2: the logarithm to base 2. -inf at 0, NaN below. Bound: `math::log2`.

use crate::prelude::*;

/// log2 x
#[derive(Clone, Copy, Debug)]
pub struct Log2;

impl Map<1> for Log2 {
    const NAME: &'static str = "log2";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.log2()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g / x * L::lit(core::f64::consts::LOG2_E)
    }
}
compile_map! { 1 Log2; }

/// The logarithm to base 2, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn log2<V: Value>(x: &V) -> Result<V> {
    map(Log2, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log2(a.input("x")?)?])
}
