//! bitwise_xor: either x or y, not both, bit by bit; for bool, the logical xor.

use crate::prelude::*;

/// Either x or y, not both, bit by bit.
#[derive(Clone, Copy, Debug)]
pub struct BitwiseXor;

impl IntMap<2> for BitwiseXor {
    const NAME: &'static str = "bitwise_xor";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.xor(y)
    }
}
compile_int_map! { 2 BitwiseXor; }

/// Either x or y, not both, bit by bit, elementwise, operands broadcast; for integers and bool.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn bitwise_xor<V: Value>(x: &V, y: &V) -> Result<V> {
    map_int(BitwiseXor, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![bitwise_xor(&x, &y)?])
}
