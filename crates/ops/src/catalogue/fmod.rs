//! fmod: the exact remainder of x / y, with the sign of x (C). d/dy = -trunc(x / y). Integers by
//! zero: 0.

use crate::prelude::*;

/// x - y trunc(x / y)
#[derive(Clone, Copy, Debug)]
pub struct Fmod;

impl Map<2> for Fmod {
    const NAME: &'static str = "fmod";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x.fmod(y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        if i == 0 { g } else { -g * quotient(x, y) }
    }
}
compile_map! { 2 Fmod; }

impl IntMap<2> for Fmod {
    const NAME: &'static str = "fmod";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.rem_trunc(y)
    }
}
compile_int_map! { 2 Fmod; }

/// trunc(x / y) of the exact quotient, as long as that is small against 1 / epsilon: x / y itself
/// may round up to the next whole number. Where there is no remainder (x infinite or y zero),
/// trunc(x / y) as IEEE gives it.
#[inline(always)]
pub(super) fn quotient<L: Lane>(x: L, y: L) -> L {
    let r = x.fmod(y);
    let q = x / y;
    let whole = ((x - r) / y).round().abs().copysign(q);
    L::select(r.is_nan(), q.trunc(), whole)
}

/// The remainder of x / y with the sign of x, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn fmod<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Fmod, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![fmod(&x, &y)?])
}
