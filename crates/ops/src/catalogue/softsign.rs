//! softsign: x / (1 + |x|). NaN at infinity.

use crate::prelude::*;

/// x / (1 + |x|)
#[derive(Clone, Copy, Debug)]
pub struct Softsign;

impl Map<1> for Softsign {
    const NAME: &'static str = "softsign";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        x / (x.abs() + L::lit(1.0))
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let d = x.abs() + L::lit(1.0);
        g / d / d
    }
}
compile_map! { 1 Softsign; }

/// x / (1 + |x|), elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn softsign<V: Value>(x: &V) -> Result<V> {
    map(Softsign, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![softsign(a.input("x")?)?])
}
