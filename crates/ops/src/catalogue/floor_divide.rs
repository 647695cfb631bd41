//! floor_divide: floor(x / y) of the exact quotient. Integers by zero: 0. The gradient is 0.

use super::remainder::other_side;
use crate::prelude::*;

/// floor(x / y)
#[derive(Clone, Copy, Debug)]
pub struct FloorDivide;

impl Map<2> for FloorDivide {
    const NAME: &'static str = "floor_divide";
    const SAVES: Saves = Saves::NOTHING;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        floor_quotient(x, y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 2 FloorDivide; }

impl IntMap<2> for FloorDivide {
    const NAME: &'static str = "floor_divide";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.div_floor(y)
    }
}
compile_int_map! { 2 FloorDivide; }

/// floor(x / y) of the exact quotient, as long as that is small against 1 / epsilon: from the
/// remainder, because x / y itself may round up to the next whole number. y = 0: x / y. x infinite:
/// NaN, as the remainder.
#[inline(always)]
pub(super) fn floor_quotient<L: Lane>(x: L, y: L) -> L {
    let (zero, one) = (L::lit(0.0), L::lit(1.0));
    let r = x.fmod(y);
    let q = (x - r) / y;
    let q = L::select(other_side(r, y), q - one, q);
    // q is whole but for rounding.
    let down = q.floor();
    let whole = L::select((q - down).gt(L::lit(0.5)), down + one, down);
    let quotient = x / y;
    let signed = L::select(q.eq(zero), zero.copysign(quotient), whole);
    L::select(y.eq(zero), quotient, signed)
}

/// floor(x / y), elementwise, operands broadcast, for floats and integers.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn floor_divide<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(FloorDivide, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![floor_divide(&x, &y)?])
}
