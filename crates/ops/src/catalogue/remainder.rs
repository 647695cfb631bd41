//! remainder: x - y floor(x / y), with the sign of y (Python). d/dy = -floor(x / y). Integers by
//! zero: 0.

use super::floor_divide::floor_quotient;
use crate::prelude::*;

/// x - y floor(x / y)
#[derive(Clone, Copy, Debug)]
pub struct Remainder;

impl Map<2> for Remainder {
    const NAME: &'static str = "remainder";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        let r = x.fmod(y);
        L::select(other_side(r, y), r + y, r)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        if i == 0 { g } else { -g * floor_quotient(x, y) }
    }
}
compile_map! { 2 Remainder; }

impl IntMap<2> for Remainder {
    const NAME: &'static str = "remainder";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.rem_floor(y)
    }
}
compile_int_map! { 2 Remainder; }

/// Is the remainder `r` of the opposite sign to `y`?
#[inline(always)]
pub(super) fn other_side<L: Lane>(r: L, y: L) -> L::Mask {
    let zero = L::lit(0.0);
    r.to_mask() & (r.lt(zero) ^ y.lt(zero))
}

/// The remainder of x / y with the sign of y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn remainder<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Remainder, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![remainder(&x, &y)?])
}
