//! log: the natural logarithm. -inf at 0, NaN below. Bound: `math::log`.

use crate::prelude::*;

/// ln x
#[derive(Clone, Copy, Debug)]
pub struct Log;

impl Map<1> for Log {
    const NAME: &'static str = "log";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.log()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g / x
    }
}
compile_map! { 1 Log; }

/// The natural logarithm, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn log<V: Value>(x: &V) -> Result<V> {
    map(Log, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log(a.input("x")?)?])
}
