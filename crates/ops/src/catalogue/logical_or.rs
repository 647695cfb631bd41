//! logical_or: x or y, where what is not zero counts as true, NaN too. The result is bool.

use crate::prelude::*;

/// x or y.
#[derive(Clone, Copy, Debug)]
pub struct LogicalOr;

impl Map<2> for LogicalOr {
    const NAME: &'static str = "logical_or";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::from_mask(x.to_mask() | y.to_mask())
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 2 LogicalOr; }

impl IntMap<2> for LogicalOr {
    const NAME: &'static str = "logical_or";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        I::from_mask(x.is_true() | y.is_true())
    }
}
compile_int_map! { 2 LogicalOr; }

/// x or y, elementwise, operands broadcast, as bool; any dtype.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn logical_or<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(LogicalOr, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![logical_or(&x, &y)?])
}
