//! log_sigmoid: log(sigmoid(x)) = min(x, 0) - log1p(exp(-|x|)), so neither tail overflows.

use crate::prelude::*;

/// ln sigmoid(x)
#[derive(Clone, Copy, Debug)]
pub struct LogSigmoid;

impl Map<1> for LogSigmoid {
    const NAME: &'static str = "log_sigmoid";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.min(L::lit(0.0)) - (-x.abs()).exp().log1p()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * (-x).sigmoid()
    }
}
compile_map! { 1 LogSigmoid; }

/// log(sigmoid(x)), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn log_sigmoid<V: Value>(x: &V) -> Result<V> {
    map(LogSigmoid, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![log_sigmoid(a.input("x")?)?])
}
