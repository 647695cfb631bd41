//! `RAdam`: Adam whose adaptive scaling starts once its variance estimate is reliable.

use super::adam::averages;
use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, power};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// RAdam.
///
/// m and v as [`super::Adam`]; r = 2 / (1 - b2) - 1 and r_t = r - 2 * t * b2^t / (1 - b2^t). While
/// r_t is 5 or less, the parameter goes down lr * m / (1 - b1^t); after that, this times
/// sqrt((r_t - 4) * (r_t - 2) * r / ((r - 4) * (r - 2) * r_t)) * sqrt(1 - b2^t) / (sqrt(v) + eps).
pub type RAdam<B> = Descent<B, RAdamRule>;

/// The settings of [`RAdam`].
#[derive(Clone, Copy, Debug)]
pub struct RAdamRule {
    betas: [f64; 2],
    eps: f64,
    decoupled_weight_decay: bool,
}

impl Default for RAdamRule {
    fn default() -> Self {
        RAdamRule { betas: [0.9, 0.999], eps: 1e-8, decoupled_weight_decay: false }
    }
}

setters! { RAdamRule:
    /// Decay of the running averages, each in 0..1 (default (0.9, 0.999)).
    betas: ();
    /// Added to the denominator, for gradients near 0 (default 1e-8).
    eps: f64;
    /// Decoupled weight decay: it shrinks the parameter instead of being added to the gradient.
    decoupled_weight_decay: bool;
}

impl Rule for RAdamRule {
    const NAME: &'static str = "radam";

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("betas", Setting::Numbers(&mut self.betas, Range::BelowOne)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
            ("decoupled_weight_decay", Setting::Flag(&mut self.decoupled_weight_decay)),
        ]
    }
    fn decoupled(&self) -> bool {
        self.decoupled_weight_decay
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_avg_sq", 0.0)]
    }
    /// lr / (1 - b1^t), and the scale of 1 / (sqrt(v) + eps): 0 before the adaptive scaling starts.
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        let [b1, b2] = self.betas.map(|b| power(b, at.step));
        let r = 2.0 / (1.0 - self.betas[1]) - 1.0;
        let now = r - 2.0 * at.step as f64 * b2 / (1.0 - b2);
        let scale = if now > 5.0 {
            ((now - 4.0) * (now - 2.0) * r / ((r - 4.0) * (r - 2.0) * now)).sqrt() * (1.0 - b2).sqrt()
        } else {
            0.0
        };
        vec![at.lr / (1.0 - b1), scale]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let [m, v] = states else { unreachable!("two averages") };
        averages(self.betas, g, m, v);
        let (size, scale) = (s[0], s[1]);
        let scaled = *m * (scale / (v.sqrt() + L::lit(self.eps)));
        (-size).fma(L::select(scale.eq(L::lit(0.0)), *m, scaled), x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<3, 4>()
    }
}
