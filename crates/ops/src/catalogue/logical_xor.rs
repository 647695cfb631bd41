//! logical_xor: either x or y, not both, where what is not zero counts as true, NaN too. The result
//! is bool.

use crate::prelude::*;

/// Either x or y, not both.
#[derive(Clone, Copy, Debug)]
pub struct LogicalXor;

impl Map<2> for LogicalXor {
    const NAME: &'static str = "logical_xor";
    const OUT: Out = Out::Bool;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        L::from_mask(x.to_mask() ^ y.to_mask())
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 2], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 2 LogicalXor; }

impl IntMap<2> for LogicalXor {
    const NAME: &'static str = "logical_xor";
    const OUT: Out = Out::Bool;
    #[inline(always)]
    fn int<I: Int>(&self, [x, y]: [I; 2]) -> I {
        I::from_mask(x.is_true() ^ y.is_true())
    }
}
compile_int_map! { 2 LogicalXor; }

/// Either x or y, not both, elementwise, operands broadcast, as bool; any dtype.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn logical_xor<V: Value>(x: &V, y: &V) -> Result<V> {
    map_any(LogicalXor, [x, y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![logical_xor(&x, &y)?])
}
