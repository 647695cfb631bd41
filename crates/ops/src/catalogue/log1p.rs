//! log1p: log(1 + x), accurate for tiny x. -inf at -1, NaN below. Bound: `math::log1p`.

use crate::prelude::*;

/// ln (1 + x)
#[derive(Clone, Copy, Debug)]
pub struct Log1p;

impl Map<1> for Log1p {
    const NAME: &'static str = "log1p";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.log1p()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g / (x + L::lit(1.0))
    }
}
compile_map! { 1 Log1p; }

/// log(1 + x), elementwise, without the rounding of 1 + x.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn log1p<V: Value>(x: &V) -> Result<V> {
    map(Log1p, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log1p(a.input("x")?)?])
}
