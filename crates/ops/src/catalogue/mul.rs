//! mul: x * y. Correctly rounded; integers wrap; bool is and.

use crate::prelude::*;

/// x * y
#[derive(Clone, Copy, Debug)]
pub struct Mul;

impl Map<2> for Mul {
    const NAME: &'static str = "mul";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        x * y
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        if i == 0 { g * y } else { g * x }
    }
}
compile_map! { 2 Mul; }

impl IntMap<2> for Mul {
    const NAME: &'static str = "mul";
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        x.mul(y)
    }
}
compile_int_map! { 2 Mul; }

/// x * y, elementwise, operands broadcast.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn mul<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Mul, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![mul(&x, &y)?])
}
