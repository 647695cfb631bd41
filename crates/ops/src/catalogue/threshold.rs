//! threshold: x where it is above a threshold, else a value. NaN propagates.

use crate::prelude::*;

/// x, or a value where x is not above the threshold.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// The threshold.
    pub threshold: f64,
    /// The value where x is not above it.
    pub value: f64,
}

impl Map<1> for Threshold {
    const NAME: &'static str = "threshold";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::select(x.le(L::lit(self.threshold)), L::lit(self.value), x)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        L::select(x.le(L::lit(self.threshold)), L::lit(0.0), g)
    }
}
compile_map! { 1 Threshold; }

/// x where it is above `threshold`, else `value`, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn threshold<V: Value>(x: &V, threshold: f64, value: f64) -> Result<V> {
    map(Threshold { threshold, value }, [x])
}

/// By name: operand x; attributes threshold and value.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![threshold(a.input("x")?, a.f64("threshold")?, a.f64("value")?)?])
}
