//! neg: -x. Exact; integers wrap.

use crate::prelude::*;

/// -x
#[derive(Clone, Copy, Debug)]
pub struct Neg;

impl Map<1> for Neg {
    const NAME: &'static str = "neg";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        -x
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, g: L) -> L {
        -g
    }
}
compile_map! { 1 Neg; }

impl IntMap<1> for Neg {
    const NAME: &'static str = "neg";
    /// The smallest integer wraps to itself.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        I::lit(0).sub(x)
    }
}
compile_int_map! { 1 Neg; }

/// -x, elementwise, for floats and integers.
///
/// # Errors
/// `DTypeMismatch` if x is bool; `OutOfMemory`.
pub fn neg<V: Value>(x: &V) -> Result<V> {
    if x.dtype() == DType::Bool {
        return Err(Error::dtype("neg: not defined for bool; use logical_not, or convert with to_dtype"));
    }
    map_any(Neg, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![neg(a.input("x")?)?])
}
