//! `Asgd`: stochastic gradient descent that also keeps the average of the parameters.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Averaged stochastic gradient descent.
///
/// With eta = lr / (1 + lambd lr (t - 1))^alpha in step t, the parameter shrinks by 1 - lambd eta
/// and goes down eta times the gradient. The state `ax` is the average of the parameters since step
/// `t0`, and the parameter itself before it.
pub type Asgd<B> = Descent<B, AsgdRule>;

/// The settings of [`Asgd`].
#[derive(Clone, Copy, Debug)]
pub struct AsgdRule {
    lambd: f64,
    alpha: f64,
    t0: f64,
}

impl Default for AsgdRule {
    fn default() -> Self {
        AsgdRule { lambd: 1e-4, alpha: 0.75, t0: 1e6 }
    }
}

setters! { AsgdRule:
    /// How fast the learning rate, and the parameter, decay (default 1e-4).
    lambd: f64;
    /// The power of the learning rate's decay (default 0.75).
    alpha: f64;
    /// The step at which averaging begins (default 1e6).
    t0: f64;
}

impl Rule for AsgdRule {
    const NAME: &'static str = "asgd";

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("lambd", Setting::Number(&mut self.lambd, Range::NotNegative)),
            ("alpha", Setting::Number(&mut self.alpha, Range::NotNegative)),
            ("t0", Setting::Number(&mut self.t0, Range::NotNegative)),
        ]
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("ax", 0.0)]
    }
    /// eta, the factor of the parameter, and the weight of the parameter in the average.
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        let before = (at.step - 1) as f64;
        let eta = at.lr / Lane::pow(1.0 + self.lambd * at.lr * before, self.alpha);
        vec![eta, 1.0 - self.lambd * eta, 1.0 / (before - self.t0).max(1.0)]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let (eta, keep, weight) = (s[0], s[1], s[2]);
        let average = &mut states[0];
        let y = (-eta).fma(g, x * keep);
        let one = L::lit(1.0);
        *average = L::select(weight.lt(one), weight.fma(y - *average, *average), y);
        y
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<2, 5>()
    }
}
