//! softplus: log(1 + exp(beta x)) / beta, and x itself where beta x is above a threshold.

use crate::prelude::*;

/// ln(1 + e^(beta x)) / beta, or x.
#[derive(Clone, Copy, Debug)]
pub struct Softplus {
    /// Sharpness of the transition.
    pub beta: f64,
    /// Above this beta x, the result is x.
    pub threshold: f64,
}

impl Map<1> for Softplus {
    const NAME: &'static str = "softplus";
    const SAVES: Saves = Saves::INPUTS;
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let beta = L::lit(self.beta);
        let z = x * beta;
        // max(z, 0) + log1p(exp(-|z|)): neither tail overflows, whatever the threshold.
        let soft = z.max(L::lit(0.0)) + (-z.abs()).exp().log1p();
        L::select(z.gt(L::lit(self.threshold)), x, soft / beta)
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let z = x * L::lit(self.beta);
        L::select(z.gt(L::lit(self.threshold)), g, g * z.sigmoid())
    }
}
compile_map! { 1 Softplus; }

/// `log(1 + e^(beta x)) / beta`, elementwise; x itself where `beta x > threshold`.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn softplus<V: Value>(x: &V, beta: f64, threshold: f64) -> Result<V> {
    map(Softplus { beta, threshold }, [x])
}

/// By name: operand x; attributes beta and threshold.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![softplus(a.input("x")?, a.f64("beta")?, a.f64("threshold")?)?])
}
