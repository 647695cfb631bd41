//! `Adadelta`: steps scaled by running averages of the squares of gradients and of steps.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Adadelta.
///
/// v = rho * v + (1 - rho) * g^2, d = sqrt(u + eps) / sqrt(v + eps) * g, u = rho * u + (1 - rho) *
/// d^2, and the parameter goes down lr * d. The paper's learning rate is 1.
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
    /// Decay of the running averages, in 0..1 (default 0.9).
    rho: f64;
    /// Added under both roots, for the first step and for gradients near 0 (default 1e-6).
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
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<3, 3>()
    }
}
