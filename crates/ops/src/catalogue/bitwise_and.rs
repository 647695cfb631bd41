//! bitwise_and: x and y, bit by bit; for bool, the logical and.

use crate::prelude::*;

/// x and y, bit by bit.
#[derive(Clone, Copy, Debug)]
pub struct BitwiseAnd;

impl IntMap<2> for BitwiseAnd {
    const NAME: &'static str = "bitwise_and";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.and(y)
    }
}
compile_int_map! { 2 BitwiseAnd; }

/// x and y, bit by bit, elementwise, operands broadcast; for integers and bool.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn bitwise_and<V: Value>(x: &V, y: &V) -> Result<V> {
    map_int(BitwiseAnd, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![bitwise_and(&x, &y)?])
}
