//! isinf: is it infinite? The result is bool.

use crate::prelude::*;

/// Is x +inf or -inf?
#[derive(Clone, Copy, Debug)]
pub struct Isinf;

impl Map<1> for Isinf {
    const NAME: &'static str = "isinf";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::from_mask(x.abs().eq(L::lit(f64::INFINITY)))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Isinf; }

impl IntMap<1> for Isinf {
    const NAME: &'static str = "isinf";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        let _ = x;
        I::lit(0)
    }
}
compile_int_map! { 1 Isinf; }

/// True where x is +inf or -inf, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn isinf<V: Value>(x: &V) -> Result<V> {
    map_any(Isinf, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![isinf(a.input("x")?)?])
}
