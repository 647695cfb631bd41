//! `Adamax`: Adam with a decaying maximum of the gradient instead of the average square.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, power};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Adamax.
///
/// m = b1 * m + (1 - b1) * g, u = max(b2 * u, |g| + eps), and in step t the parameter goes down
/// lr / (1 - b1^t) * m / u.
pub type Adamax<B> = Descent<B, AdamaxRule>;

/// The settings of [`Adamax`].
#[derive(Clone, Copy, Debug)]
pub struct AdamaxRule {
    betas: [f64; 2],
    eps: f64,
}

impl Default for AdamaxRule {
    fn default() -> Self {
        AdamaxRule { betas: [0.9, 0.999], eps: 1e-8 }
    }
}

setters! { AdamaxRule:
    /// Decay of the average and of the maximum, each in 0..1 (default (0.9, 0.999)).
    betas: ();
    /// Added to the denominator, for gradients near 0 (default 1e-8).
    eps: f64;
}

impl Rule for AdamaxRule {
    const NAME: &'static str = "adamax";

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("betas", Setting::Numbers(&mut self.betas, Range::BelowOne)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
        ]
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_inf", 0.0)]
    }
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        vec![at.lr / (1.0 - power(self.betas[0], at.step))]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let [m, u] = states else { unreachable!("an average and a maximum") };
        let [b1, b2] = self.betas;
        *m = L::lit(b1).fma(*m, L::lit(1.0 - b1) * g);
        *u = (L::lit(b2) * *u).max(g.abs() + L::lit(self.eps));
        (-s[0]).fma(*m / *u, x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<3, 3>()
    }
}
