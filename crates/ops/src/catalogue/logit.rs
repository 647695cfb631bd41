//! logit: log(x / (1 - x)), the inverse of sigmoid. NaN outside of 0..=1, unless x is first clamped
//! to eps..=1 - eps.

use crate::prelude::*;

/// ln(x / (1 - x))
#[derive(Clone, Copy, Debug)]
pub struct Logit {
    /// x is clamped to `eps..=1 - eps`.
    pub eps: Option<f64>,
}

impl Map<1> for Logit {
    const NAME: &'static str = "logit";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x]: [L; 1]) -> L {
        let one = L::lit(1.0);
        let x = match self.eps {
            // The lower bound first, which is the larger one if eps is above 1/2.
            Some(eps) => {
                let (low, high) = (L::lit(eps), L::lit(1.0 - eps));
                L::select(x.lt(low), low, x.at_most(high))
            }
            None => x,
        };
        // Around 1/2 the result is small and the quotient near 1; there 2 x - 1 is exact.
        let middle = x.gt(L::lit(0.25)) & x.lt(L::lit(0.75));
        let near = ((x + x - one) / (one - x)).log1p();
        L::select(middle, near, (x / (one - x)).log())
    }
    #[inline(always)]
    fn vjp<L: Lane>(&self, _: usize, [x]: [L; 1], _: L, g: L) -> L {
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        match self.eps {
            Some(eps) => {
                let outside = x.lt(L::lit(eps)) | x.gt(L::lit(1.0 - eps));
                let x = L::select(outside, L::lit(0.5), x);
                L::select(outside, zero, g / (x * (one - x)))
            }
            None => {
                let outside = x.lt(zero) | x.gt(one);
                L::select(outside, L::lit(f64::NAN), g / (x * (one - x)))
            }
        }
    }
}
compile_map! { 1 Logit; }

/// log(x / (1 - x)), elementwise; with `eps`, of x clamped to `eps..=1 - eps`: of `eps` where x is
/// less than that, else of `1 - eps` where x is greater.
///
/// # Errors
/// `DTypeMismatch` if x is not of floats; `OutOfMemory`.
pub fn logit<V: Value>(x: &V, eps: Option<f64>) -> Result<V> {
    map(Logit { eps }, [x])
}

/// By name: operand x; attribute eps (null: not clamped).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let eps = a.maybe("eps", Args::f64)?;
    Ok(vec![logit(a.input("x")?, eps)?])
}
