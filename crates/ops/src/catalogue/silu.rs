//! silu: x sigmoid(x). Relatively accurate in the negative tail; NaN at -inf.

use crate::prelude::*;

/// x / (1 + e^-x)
#[derive(Clone, Copy, Debug)]
pub struct Silu;

impl Map<1> for Silu {
    const NAME: &'static str = "silu";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        // Not x / (1 + exp(-x)): that becomes 0 where exp overflows, while the result is still a
        // normal number.
        x * x.sigmoid()
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // s (1 + x (1 - s)). Clamped, as x may be infinite: beyond the bound one of the two
        // sigmoids is 0.
        let bound = L::lit(1000.0);
        let x = x.min(bound).max(-bound);
        g * (x.sigmoid() * x.fma((-x).sigmoid(), L::lit(1.0)))
    }
}
compile_map! { 1 Silu; }

/// x sigmoid(x), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn silu<V: Value>(x: &V) -> Result<V> {
    map(Silu, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![silu(a.input("x")?)?])
}
