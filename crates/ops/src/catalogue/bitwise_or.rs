//! bitwise_or: x or y, bit by bit; for bool, the logical or.

use crate::prelude::*;

/// x or y, bit by bit.
#[derive(Clone, Copy, Debug)]
pub struct BitwiseOr;

impl IntMap<2> for BitwiseOr {
    const NAME: &'static str = "bitwise_or";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.or(y)
    }
}
compile_int_map! { 2 BitwiseOr; }

/// x or y, bit by bit, elementwise, operands broadcast; for integers and bool.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn bitwise_or<V: Value>(x: &V, y: &V) -> Result<V> {
    map_int(BitwiseOr, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![bitwise_or(&x, &y)?])
}
