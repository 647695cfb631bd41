//! isfinite: is it neither infinite nor NaN? The result is bool.

use crate::prelude::*;

/// Is x neither infinite nor NaN?
#[derive(Clone, Copy, Debug)]
pub struct Isfinite;

impl Map<1> for Isfinite {
    const NAME: &'static str = "isfinite";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::from_mask(x.abs().lt(L::lit(f64::INFINITY)))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Isfinite; }

impl IntMap<1> for Isfinite {
    const NAME: &'static str = "isfinite";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        let _ = x;
        I::lit(1)
    }
}
compile_int_map! { 1 Isfinite; }

/// True where x is neither infinite nor NaN, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn isfinite<V: Value>(x: &V) -> Result<V> {
    map_any(Isfinite, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![isfinite(a.input("x")?)?])
}
