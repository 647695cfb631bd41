//! isnan: is it NaN? The result is bool.

use crate::prelude::*;

/// Is x NaN?
#[derive(Clone, Copy, Debug)]
pub struct Isnan;

impl Map<1> for Isnan {
    const NAME: &'static str = "isnan";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::from_mask(x.is_nan())
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Isnan; }

impl IntMap<1> for Isnan {
    const NAME: &'static str = "isnan";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        let _ = x;
        I::lit(0)
    }
}
compile_int_map! { 1 Isnan; }

/// True where x is NaN, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn isnan<V: Value>(x: &V) -> Result<V> {
    map_any(Isnan, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![isnan(a.input("x")?)?])
}
