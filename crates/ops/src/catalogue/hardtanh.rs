//! hardtanh: x clamped to min_val..=max_val. Exact. The gradient is 0 at both ends; NaN propagates.

use crate::prelude::*;

/// min(max(x, min_val), max_val)
#[derive(Clone, Copy, Debug)]
pub struct Hardtanh {
    /// The least result.
    pub min_val: f64,
    /// The largest result.
    pub max_val: f64,
}

impl Map<1> for Hardtanh {
    const NAME: &'static str = "hardtanh";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.max(L::lit(self.min_val)).min(L::lit(self.max_val))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // NaN is neither end, and its gradient is g, so that it does not vanish on the way back.
        let ends = x.le(L::lit(self.min_val)) | x.ge(L::lit(self.max_val));
        L::select(ends, L::lit(0.0), g)
    }
}
compile_map! { 1 Hardtanh; }

/// x clamped to `min_val..=max_val`, elementwise.
///
/// # Errors
/// `InvalidArgument` if `min_val` is above `max_val`; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn hardtanh<V: Value>(x: &V, min_val: f64, max_val: f64) -> Result<V> {
    // NaN is no bound either.
    if min_val.is_nan() || max_val.is_nan() || min_val > max_val {
        return Err(Error::argument(format!("hardtanh: min_val {min_val} is above max_val {max_val}, or not a number")));
    }
    map(Hardtanh { min_val, max_val }, [x])
}

/// By name: operand x; attributes min_val and max_val.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![hardtanh(a.input("x")?, a.f64("min_val")?, a.f64("max_val")?)?])
}
