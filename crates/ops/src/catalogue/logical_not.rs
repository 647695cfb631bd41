//! logical_not: is it zero? The result is bool; NaN is not zero.

use crate::prelude::*;

/// x == 0
#[derive(Clone, Copy, Debug)]
pub struct LogicalNot;

impl Map<1> for LogicalNot {
    const NAME: &'static str = "logical_not";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        L::from_mask(!x.to_mask())
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 LogicalNot; }

impl IntMap<1> for LogicalNot {
    const NAME: &'static str = "logical_not";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        I::from_mask(!x.is_true())
    }
}
compile_int_map! { 1 LogicalNot; }

/// True where x is zero or false, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn logical_not<V: Value>(x: &V) -> Result<V> {
    map_any(LogicalNot, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![logical_not(a.input("x")?)?])
}
