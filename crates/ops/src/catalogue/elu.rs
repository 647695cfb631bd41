//! elu: x if x > 0, else alpha (exp(x) - 1). The gradient at 0 is alpha.

use crate::prelude::*;

/// x, or alpha (e^x - 1) below zero.
#[derive(Clone, Copy, Debug)]
pub struct Elu {
    /// The negated limit towards -inf.
    pub alpha: f64,
}

impl Map<1> for Elu {
    const NAME: &'static str = "elu";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let zero = L::lit(0.0);
        L::select(x.le(zero), x.min(zero).expm1() * L::lit(self.alpha), x)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        // The minimum keeps exp finite where it is not selected: its own gradient must not become 0
        // times infinity.
        let zero = L::lit(0.0);
        L::select(x.gt(zero), g, g * (x.min(zero).exp() * L::lit(self.alpha)))
    }
}
compile_map! { 1 Elu; }

/// x where it is positive, else `alpha (e^x - 1)`, elementwise.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn elu<V: Value>(x: &V, alpha: f64) -> Result<V> {
    map(Elu { alpha }, [x])
}

/// By name: operand x; attribute alpha.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![elu(a.input("x")?, a.f64("alpha")?)?])
}
