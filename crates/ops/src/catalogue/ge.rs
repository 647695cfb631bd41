//! ge: x >= y. The result is bool. False where either is NaN.

use super::comparison::{self, Comparison};
use crate::prelude::*;

/// x >= y
#[derive(Clone, Copy, Debug)]
pub struct Ge;

impl Map<2> for Ge {
    const NAME: &'static str = "ge";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::from_mask(x.ge(y))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 2 Ge; }

impl IntMap<2> for Ge {
    const NAME: &'static str = "ge";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        I::from_mask(!x.lt(y))
    }
}
compile_int_map! { 2 Ge; }

/// x >= y, elementwise, operands broadcast, as bool.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn ge<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Ge, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    comparison::call(a, Comparison::Ge)
}
