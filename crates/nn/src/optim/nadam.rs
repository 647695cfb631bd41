//! `NAdam`: Adam with Nesterov momentum.

use super::adam::averages;
use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, power};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// NAdam.
///
/// m and v as [`super::Adam`]; mu_t = b1 * (1 - 0.96^(t * momentum_decay) / 2), and M the product
/// of all mu so far. In step t the parameter goes down lr * ((1 - mu_t) / (1 - M) * g + mu_(t+1) /
/// (1 - M * mu_(t+1)) * m) / (sqrt(v / (1 - b2^t)) + eps).
pub type NAdam<B> = Descent<B, NAdamRule>;

/// The settings of [`NAdam`].
#[derive(Clone, Copy, Debug)]
pub struct NAdamRule {
    betas: [f64; 2],
    eps: f64,
    momentum_decay: f64,
    decoupled_weight_decay: bool,
}

impl Default for NAdamRule {
    fn default() -> Self {
        NAdamRule { betas: [0.9, 0.999], eps: 1e-8, momentum_decay: 0.004, decoupled_weight_decay: false }
    }
}

setters! { NAdamRule:
    /// Decay of the running averages, each in 0..1 (default (0.9, 0.999)).
    betas: ();
    /// Added to the denominator, for gradients near 0 (default 1e-8).
    eps: f64;
    /// How fast the momentum approaches its full size (default 0.004).
    momentum_decay: f64;
    /// Decoupled weight decay: it shrinks the parameter instead of being added to the gradient.
    decoupled_weight_decay: bool;
}

impl NAdamRule {
    /// The momentum of step t; 0.96 is the paper's constant (Dozat 2016).
    fn mu(&self, t: u64) -> f64 {
        self.betas[0] * (1.0 - 0.5 * Lane::pow(0.96f64, t as f64 * self.momentum_decay))
    }
}

impl Rule for NAdamRule {
    const NAME: &'static str = "nadam";

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("betas", Setting::Numbers(&mut self.betas, Range::BelowOne)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
            ("momentum_decay", Setting::Number(&mut self.momentum_decay, Range::NotNegative)),
            ("decoupled_weight_decay", Setting::Flag(&mut self.decoupled_weight_decay)),
        ]
    }
    fn decoupled(&self) -> bool {
        self.decoupled_weight_decay
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_avg_sq", 0.0)]
    }
    fn numbers(&self) -> &'static [(&'static str, f64)] {
        &[("mu_product", 1.0)]
    }
    /// The weights of g and of m, and eps, each times sqrt(1 - b2^t).
    fn scalars(&self, at: At<'_>, numbers: &mut [f64]) -> Vec<f64> {
        let (mu, next) = (self.mu(at.step), self.mu(at.step + 1));
        numbers[0] *= mu;
        let product = numbers[0];
        let unbias = (1.0 - power(self.betas[1], at.step)).sqrt();
        vec![
            at.lr * unbias * (1.0 - mu) / (1.0 - product),
            at.lr * unbias * next / (1.0 - product * next),
            self.eps * unbias,
        ]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let [m, v] = states else { unreachable!("two averages") };
        averages(self.betas, g, m, v);
        let (of_g, of_m, eps) = (s[0], s[1], s[2]);
        x - of_g.fma(g, of_m * *m) / (v.sqrt() + eps)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<3, 5>()
    }
}
