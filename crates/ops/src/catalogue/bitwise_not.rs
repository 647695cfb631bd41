//! bitwise_not: every bit flipped; for bool, the logical not.

use crate::prelude::*;

/// Every bit flipped.
#[derive(Clone, Copy, Debug)]
pub struct BitwiseNot;

impl IntMap<1> for BitwiseNot {
    const NAME: &'static str = "bitwise_not";
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x.not()
    }
}
compile_int_map! { 1 BitwiseNot; }

/// Every bit flipped, elementwise, for integers; the logical not for bool.
///
/// # Errors
/// `DTypeMismatch` if x is not of integers or bool; `OutOfMemory`.
pub fn bitwise_not<V: Value>(x: &V) -> Result<V> {
    map_int(BitwiseNot, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![bitwise_not(a.input("x")?)?])
}
