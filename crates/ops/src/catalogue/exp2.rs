//! exp2: 2 to the power of x. Bound: `math::exp2`. The gradient is the result times ln 2.

use crate::prelude::*;

/// 2^x
#[derive(Clone, Copy, Debug)]
pub struct Exp2;

impl Map<1> for Exp2 {
    const NAME: &'static str = "exp2";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.exp2()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        g * (y * L::lit(core::f64::consts::LN_2))
    }
}
compile_map! { 1 Exp2; }

/// 2^x, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn exp2<V: Value>(x: &V) -> Result<V> {
    map(Exp2, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![exp2(a.input("x")?)?])
}
