//! tanhshrink: x - tanh(x). Accurate to two ULP of x, not of the result, which is far smaller
//! near 0.

use crate::prelude::*;

/// x - tanh(x)
#[derive(Clone, Copy, Debug)]
pub struct Tanhshrink;

impl Map<1> for Tanhshrink {
    const NAME: &'static str = "tanhshrink";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x - x.tanh()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let t = x.tanh();
        g * (t * t)
    }
}
compile_map! { 1 Tanhshrink; }

/// x - tanh(x), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn tanhshrink<V: Value>(x: &V) -> Result<V> {
    map(Tanhshrink, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tanhshrink(a.input("x")?)?])
}
