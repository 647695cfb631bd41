//! `Adadelta`: steps as large as those before, scaled by a running average of the gradient's
//! square.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, Work, each};
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::lane::Lane;

/// Adadelta.
///
/// v = rho * v + (1 - rho) * g^2, d = sqrt(u + eps) / sqrt(v + eps) * g, u = rho * u + (1 - rho) *
/// d^2, and the parameter goes down lr * d. A learning rate of 1 is what its authors meant.
pub type Adadelta<B> = Descent<B, AdadeltaRule>;

/// The settings of [`Adadelta`].
#[derive(Clone, Copy, Debug)]
pub struct AdadeltaRule {
    rho: f64,
    eps: f64,
}

impl Default for AdadeltaRule {
    fn default() -> Self {
        AdadeltaRule { rho: 0.9, eps: 1e-6 }
    }
}

setters! { AdadeltaRule:
    /// How much of the running averages stays in each step, in 0..1: 0.9 at first.
    rho: f64;
    /// Lets the first step begin, and keeps the division from blowing up: 1e-6 at first.
    eps: f64;
}

impl Rule for AdadeltaRule {
    const NAME: &'static str = "adadelta";
    const COUNTS: bool = false;

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("rho", Setting::Number(&mut self.rho, Range::BelowOne)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
        ]
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("square_avg", 0.0), ("acc_delta", 0.0)]
    }
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        vec![at.lr]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let [v, u] = states else { unreachable!("two averages") };
        let (keep, take, eps) = (L::lit(self.rho), L::lit(1.0 - self.rho), L::lit(self.eps));
        *v = keep.fma(*v, take * g * g);
        let down = (*u + eps).sqrt() / (*v + eps).sqrt() * g;
        *u = keep.fma(*u, take * down * down);
        (-s[0]).fma(down, x)
    }
    fn run<B: Backend>(step: &Step<Self>, all: &mut [Work<'_, B>]) -> Result<()> {
        each::<_, _, 3, 3>(step, all)
    }
}
