//! shift_left: x 2^y by moving bits. 0 if y is the width or more, or negative.

use crate::prelude::*;

/// x << y
#[derive(Clone, Copy, Debug)]
pub struct ShiftLeft;

impl IntMap<2> for ShiftLeft {
    const NAME: &'static str = "shift_left";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.shl(y)
    }
}
compile_int_map! { 2 ShiftLeft; }

/// The bits of x moved left by y, elementwise, operands broadcast; for integers.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn shift_left<V: Value>(x: &V, y: &V) -> Result<V> {
    map_int(ShiftLeft, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![shift_left(&x, &y)?])
}
