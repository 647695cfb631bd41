//! celu: x if x > 0, else alpha (exp(x / alpha) - 1): the elu whose gradient at 0 is 1.

use crate::prelude::*;

/// x, or alpha (e^(x / alpha) - 1) below zero.
#[derive(Clone, Copy, Debug)]
pub struct Celu {
    /// The negated limit towards -inf.
    pub alpha: f64,
}

impl Map<1> for Celu {
    const NAME: &'static str = "celu";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let (zero, alpha) = (L::lit(0.0), L::lit(self.alpha));
        L::select(x.le(zero), (x.min(zero) / alpha).expm1() * alpha, x)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let zero = L::lit(0.0);
        L::select(x.gt(zero), g, g * (x.min(zero) / L::lit(self.alpha)).exp())
    }
}
compile_map! { 1 Celu; }

/// x where it is positive, else `alpha (e^(x / alpha) - 1)`, elementwise.
///
/// # Errors
/// `InvalidArgument` if `alpha` is 0; `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn celu<V: Value>(x: &V, alpha: f64) -> Result<V> {
    if alpha.is_nan() || alpha == 0.0 {
        return Err(Error::argument(format!("celu: alpha is {alpha}, by which x is divided; it must not be 0")));
    }
    map(Celu { alpha }, [x])
}

/// By name: operand x; attribute alpha.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![celu(a.input("x")?, a.f64("alpha")?)?])
}
