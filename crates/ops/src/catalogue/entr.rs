//! entr: -x log(x), an element of an entropy: 0 at 0, -inf below.

use crate::prelude::*;

/// -x log(x)
#[derive(Clone, Copy, Debug)]
pub struct Entr;

impl Map<1> for Entr {
    const NAME: &'static str = "entr";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let zero = L::lit(0.0);
        let y = L::select(x.eq(zero), zero, -x * x.log());
        L::select(x.lt(zero), L::lit(f64::NEG_INFINITY), y)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        -(g * (x.log() + L::lit(1.0)))
    }
}
compile_map! { 1 Entr; }

/// -x log(x), elementwise: 0 at 0, -inf below.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn entr<V: Value>(x: &V) -> Result<V> {
    map(Entr, [x])
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![entr(a.input("x")?)?])
}
