//! asinh: the inverse hyperbolic sine. Bound: `math::asinh`.

use crate::prelude::*;

/// The inverse of sinh.
#[derive(Clone, Copy, Debug)]
pub struct Asinh;

impl Map<1> for Asinh {
    const NAME: &'static str = "asinh";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.asinh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let one = L::lit(1.0);
        // 1 / |x| where the square might overflow.
        L::select(x.abs().gt(L::lit(1e9)), g / x.abs(), g / x.fma(x, one).sqrt())
    }
}
compile_map! { 1 Asinh; }

/// The inverse hyperbolic sine, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn asinh<V: Value>(x: &V) -> Result<V> {
    map(Asinh, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![asinh(a.input("x")?)?])
}
