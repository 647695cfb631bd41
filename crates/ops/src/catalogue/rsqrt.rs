//! rsqrt: 1 / sqrt(x). Bound: `math::rsqrt`.

use crate::prelude::*;

/// 1 / sqrt(x)
#[derive(Clone, Copy, Debug)]
pub struct Rsqrt;

impl Map<1> for Rsqrt {
    const NAME: &'static str = "rsqrt";
    const SAVES: Saves = Saves::OUTPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x.rsqrt()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, _: [L; 1], y: L, g: L) -> L {
        // From the left: the cube of a result, which may over- or underflow, is not computed alone.
        g * L::lit(-0.5) * y * y * y
    }
}
compile_map! { 1 Rsqrt; }

/// 1 / sqrt(x), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn rsqrt<V: Value>(x: &V) -> Result<V> {
    map(Rsqrt, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![rsqrt(a.input("x")?)?])
}
