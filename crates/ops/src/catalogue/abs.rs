//! abs: the magnitude. Exact. The gradient at 0 is 0.

use crate::prelude::*;

/// |x|
#[derive(Clone, Copy, Debug)]
pub struct Abs;

impl Map<1> for Abs {
    const NAME: &'static str = "abs";
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.abs()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let zero = L::lit(0.0);
        L::select(x.gt(zero), g, L::select(x.lt(zero), -g, zero))
    }
}
compile_map! { 1 Abs; }

impl IntMap<1> for Abs {
    const NAME: &'static str = "abs";
    /// The smallest integer wraps to itself.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        let zero = I::lit(0);
        I::select(x.lt(zero), zero.sub(x), x)
    }
}
compile_int_map! { 1 Abs; }

/// |x|, elementwise, for floats and integers.
///
/// # Errors
/// `OutOfMemory`.
pub fn abs<V: Value>(x: &V) -> Result<V> {
    map_any(Abs, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![abs(a.input("x")?)?])
}
