//! floor: the largest whole number not above x. Exact; the sign of zero stays. The gradient is 0.

use crate::prelude::*;

/// The largest whole number not above x.
#[derive(Clone, Copy, Debug)]
pub struct Floor;

impl Map<1> for Floor {
    const NAME: &'static str = "floor";
    const SAVES: Saves = Saves::NOTHING;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.floor()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], _: L, _: L) -> L {
        L::lit(0.0)
    }
}
compile_map! { 1 Floor; }

impl IntMap<1> for Floor {
    const NAME: &'static str = "floor";
    /// Integers are whole.
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x
    }
}
compile_int_map! { 1 Floor; }

/// The largest whole number not above x, elementwise.
///
/// # Errors
/// `OutOfMemory`.
pub fn floor<V: Value>(x: &V) -> Result<V> {
    map_any(Floor, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![floor(a.input("x")?)?])
}
