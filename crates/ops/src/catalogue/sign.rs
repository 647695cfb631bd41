//! sign: -1, 0 or 1. Exact. 0 at zeros and at NaN; the gradient is 0.

use crate::prelude::*;

/// The sign of x as a number.
#[derive(Clone, Copy, Debug)]
pub struct Sign;

impl Map<1> for Sign {
    const NAME: &'static str = "sign";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::from_mask(x.gt(L::lit(0.0))) - L::from_mask(x.lt(L::lit(0.0)))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Sign; }

impl IntMap<1> for Sign {
    const NAME: &'static str = "sign";
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        let zero = I::lit(0);
        I::select(zero.lt(x), I::lit(1), I::select(x.lt(zero), I::lit(-1), zero))
    }
}
compile_int_map! { 1 Sign; }

/// -1, 0 or 1 by the sign of x, elementwise, for floats and integers; NaN gives 0.
///
/// # Errors
/// `OutOfMemory`.
pub fn sign<V: Value>(x: &V) -> Result<V> {
    map_any(Sign, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![sign(a.input("x")?)?])
}
