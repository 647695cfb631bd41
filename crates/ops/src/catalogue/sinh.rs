//! sinh: the hyperbolic sine. Bound: `math::sinh`.

use crate::prelude::*;

/// sinh x
#[derive(Clone, Copy, Debug)]
pub struct Sinh;

impl Map<1> for Sinh {
    const NAME: &'static str = "sinh";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.sinh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        g * x.cosh()
    }
}
compile_map! { 1 Sinh; }

/// The hyperbolic sine, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn sinh<V: Value>(x: &V) -> Result<V> {
    map(Sinh, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![sinh(a.input("x")?)?])
}
