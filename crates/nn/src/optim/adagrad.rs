//! `Adagrad`: steps scaled by the sum of all squares of the gradient.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Adagrad.
///
/// sum += g^2, from `initial_accumulator_value`; in step t the parameter goes down
/// lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + eps).
pub type Adagrad<B> = Descent<B, AdagradRule>;

/// The settings of [`Adagrad`].
#[derive(Clone, Copy, Debug)]
pub struct AdagradRule {
    lr_decay: f64,
    initial_accumulator_value: f64,
    eps: f64,
}

impl Default for AdagradRule {
    fn default() -> Self {
        AdagradRule { lr_decay: 0.0, initial_accumulator_value: 0.0, eps: 1e-10 }
    }
}

setters! { AdagradRule:
    /// Decay of the learning rate per step.
    lr_decay: f64;
    /// Initial value of the sums.
    initial_accumulator_value: f64;
    /// Added to the denominator, for gradients near 0 (default 1e-10).
    eps: f64;
}

impl Rule for AdagradRule {
    const NAME: &'static str = "adagrad";

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("lr_decay", Setting::Number(&mut self.lr_decay, Range::NotNegative)),
            (
                "initial_accumulator_value",
                Setting::Number(&mut self.initial_accumulator_value, Range::NotNegative),
            ),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
        ]
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("sum", self.initial_accumulator_value)]
    }
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        vec![at.lr / (1.0 + (at.step - 1) as f64 * self.lr_decay)]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let sum = &mut states[0];
        *sum = g.fma(g, *sum);
        (-s[0]).fma(g / (sum.sqrt() + L::lit(self.eps)), x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<2, 3>()
    }
}
