//! ldexp: x 2^y. Exact for whole y, as long as the result is no subnormal number.

use crate::prelude::*;
use crate::value::cast;

/// x 2^y
#[derive(Clone, Copy, Debug)]
pub struct Ldexp;

impl Map<2> for Ldexp {
    const NAME: &'static str = "ldexp";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, y]: [L; 2]) -> L {
        // 2^y in three parts, since x may be subnormal and the result near the largest number.
        let most = L::lit(if L::bits() == 32 { 300.0 } else { 2200.0 });
        let whole = y.trunc();
        let n = whole.at_most(most).at_least(-most);
        let third = (n * L::lit(1.0 / 3.0)).trunc();
        let p = third.exp2();
        let scaled = x * (y - whole).exp2() * p * p * (n - third - third).exp2();
        // Infinite powers: the fraction above is NaN.
        let unlimited = y.abs().eq(L::lit(f64::INFINITY));
        L::select(unlimited, x * y.exp2(), scaled)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, i: usize, [x, y]: [L; 2], _: L, g: L) -> L {
        if i == 0 {
            return self.lane([g, y]);
        }
        self.lane([g * x * L::lit(core::f64::consts::LN_2), y])
    }
}
compile_map! { 2 Ldexp; }

/// x 2^y, elementwise, operands broadcast; y may be of integers.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn ldexp<V: Value>(x: &V, y: &V) -> Result<V> {
    let y = if y.dtype().is_float() { y.clone() } else { cast(y, x.dtype())? };
    map(Ldexp, [x, &y])
}

/// By name: operands x and y, or x and the attribute scalar.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, y) = a.pair()?;
    Ok(vec![ldexp(&x, &y)?])
}
