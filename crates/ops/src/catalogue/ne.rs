//! ne: x != y. The result is bool. NaN differs from everything.

use super::comparison::{self, Comparison};
use crate::prelude::*;

/// x != y
#[derive(Clone, Copy, Debug)]
pub struct Ne;

impl Map<2> for Ne {
    const NAME: &'static str = "ne";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::from_mask(x.ne(y))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 2 Ne; }

impl IntMap<2> for Ne {
    const NAME: &'static str = "ne";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        I::from_mask(!x.eq(y))
    }
}
compile_int_map! { 2 Ne; }

/// x != y, elementwise, operands broadcast, as bool.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn ne<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(Ne, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    comparison::call(a, Comparison::Ne)
}
