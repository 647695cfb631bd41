//! cosh: the hyperbolic cosine. Bound: `math::cosh`.

use crate::prelude::*;

/// cosh x
#[derive(Clone, Copy, Debug)]
pub struct Cosh;

impl Map<1> for Cosh {
    const NAME: &'static str = "cosh";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.cosh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * x.sinh()
    }
}
compile_map! { 1 Cosh; }

/// The hyperbolic cosine, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn cosh<V: Value>(x: &V) -> Result<V> {
    map(Cosh, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cosh(a.input("x")?)?])
}
