//! relu: max(x, 0). Exact. The gradient at 0 is 0; NaN propagates.

use crate::prelude::*;

/// max(x, 0)
#[derive(Clone, Copy, Debug)]
pub struct Relu;

impl Map<1> for Relu {
    const NAME: &'static str = "relu";
    const SAVES: Saves = Saves::OUTPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let zero = L::lit(0.0);
        L::select(x.lt(zero), zero, x)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        L::select(y.le(L::lit(0.0)), L::lit(0.0), g)
    }
}
compile_map! { 1 Relu; }

impl IntMap<1> for Relu {
    const NAME: &'static str = "relu";
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x.max(I::lit(0))
    }
}
compile_int_map! { 1 Relu; }

/// max(x, 0), elementwise, for floats and integers.
///
/// # Errors
/// `OutOfMemory`.
pub fn relu<V: Value>(x: &V) -> Result<V> {
    map_any(Relu, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![relu(a.input("x")?)?])
}
