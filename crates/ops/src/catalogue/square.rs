//! square: x * x. Correctly rounded; integers wrap; that of bool is an integer.

use crate::prelude::*;
use crate::value::cast;

/// x * x
#[derive(Clone, Copy, Debug)]
pub struct Square;

impl Map<1> for Square {
    const NAME: &'static str = "square";
    const SAVES: Saves = Saves::INPUTS;
    const HINTS: Hints = Hints::LIGHT;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x * x
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // The product first: 2 x may overflow where the gradient does not.
        let half = g * x;
        half + half
    }
}
compile_map! { 1 Square; }

impl IntMap<1> for Square {
    const NAME: &'static str = "square";
    #[inline(always)]
    fn int<I: Int>(&self, [x]: [I; 1]) -> I {
        x.mul(x)
    }
}
compile_int_map! { 1 Square; }

/// x * x, elementwise, for floats and integers; of bool, i64.
///
/// # Errors
/// `OutOfMemory`.
pub fn square<V: Value>(x: &V) -> Result<V> {
    if x.dtype() == DType::Bool { cast(x, DType::I64) } else { map_any(Square, [x]) }
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![square(a.input("x")?)?])
}
