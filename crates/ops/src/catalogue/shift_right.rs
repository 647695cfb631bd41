//! shift_right: floor(x / 2^y) by moving bits. 0 or -1 if y is the width or more, or negative.

use crate::prelude::*;

/// x >> y
#[derive(Clone, Copy, Debug)]
pub struct ShiftRight;

impl IntMap<2> for ShiftRight {
    const NAME: &'static str = "shift_right";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.shr(y)
    }
}
compile_int_map! { 2 ShiftRight; }

/// The bits of x moved right by y, elementwise, operands broadcast; for integers, keeping the sign.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn shift_right<V: Value>(x: &V, y: &V) -> Result<V> {
    map_int(ShiftRight, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![shift_right(&x, &y)?])
}
