//! `Adam` and `AdamW`: steps scaled by running averages of the gradient and of its square.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step, power};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Adam: weight decay is added to the gradient.
///
/// m = b1 * m + (1 - b1) * g, v = b2 * v + (1 - b2) * g^2, and in step t the parameter goes down
/// lr * (m / (1 - b1^t)) / (sqrt(v) / sqrt(1 - b2^t) + eps); with `amsgrad`, v in that line is the
/// largest so far. It is computed with both corrections outside of the fraction, as Kingma and Ba,
/// "Adam" (2015), propose at the end of section 2: one division less.
pub type Adam<B> = Descent<B, AdamRule<false>>;
/// AdamW: as [`Adam`], but with decoupled weight decay (default 0.01), which shrinks the parameter
/// instead of being added to the gradient.
pub type AdamW<B> = Descent<B, AdamRule<true>>;

/// The settings of [`Adam`] (`DECOUPLED` false) and [`AdamW`] (true).
#[derive(Clone, Copy, Debug)]
pub struct AdamRule<const DECOUPLED: bool> {
    betas: [f64; 2],
    eps: f64,
    amsgrad: bool,
}

impl<const DECOUPLED: bool> Default for AdamRule<DECOUPLED> {
    fn default() -> Self {
        AdamRule { betas: [0.9, 0.999], eps: 1e-8, amsgrad: false }
    }
}

setters! { AdamRule<const DECOUPLED: bool>:
    /// Decay of the running averages, each in 0..1 (default (0.9, 0.999)).
    betas: ();
    /// Added to the denominator, for gradients near 0 (default 1e-8).
    eps: f64;
    /// Scales by the maximum of the running averages of the square so far.
    amsgrad: bool;
}

/// Updates the running averages of the gradient and of its square.
#[inline(always)]
pub(super) fn averages<L: Lane>(betas: [f64; 2], g: L, m: &mut L, v: &mut L) {
    let [b1, b2] = betas;
    *m = L::lit(b1).fma(*m, L::lit(1.0 - b1) * g);
    *v = L::lit(b2).fma(*v, L::lit(1.0 - b2) * g * g);
}

impl<const DECOUPLED: bool> Rule for AdamRule<DECOUPLED> {
    const NAME: &'static str = if DECOUPLED { "adamw" } else { "adam" };
    const WEIGHT_DECAY: f64 = if DECOUPLED { 0.01 } else { 0.0 };

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("betas", Setting::Numbers(&mut self.betas, Range::BelowOne)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
            ("amsgrad", Setting::Flag(&mut self.amsgrad)),
        ]
    }
    fn decoupled(&self) -> bool {
        DECOUPLED
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        let mut all = vec![("exp_avg", 0.0), ("exp_avg_sq", 0.0)];
        all.extend(self.amsgrad.then_some(("max_exp_avg_sq", 0.0)));
        all
    }
    /// lr * sqrt(1 - b2^t) / (1 - b1^t), eps * sqrt(1 - b2^t)
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        let [b1, b2] = self.betas.map(|b| power(b, at.step));
        let unbias = (1.0 - b2).sqrt();
        vec![at.lr * unbias / (1.0 - b1), self.eps * unbias]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let [m, v, largest @ ..] = states else { unreachable!("two averages") };
        averages(self.betas, g, m, v);
        let scale = match largest {
            [largest] => {
                *largest = largest.max(*v);
                *largest
            }
            _ => *v,
        };
        let (size, eps) = (s[0], s[1]);
        (-size).fma(*m / (scale.sqrt() + eps), x)
    }
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        let AdamRule { betas, eps, amsgrad } = step.rule;
        let Step { maximize, decay, .. } = step;
        if DECOUPLED {
            adamw(Step { rule: AdamRule { betas, eps, amsgrad }, maximize, decay })
        } else {
            adam(Step { rule: AdamRule { betas, eps, amsgrad }, maximize, decay })
        }
    }
}

/// The formula of [`Adam`]. Not generic, so that it is compiled here.
#[inline(never)]
fn adam(step: Step<AdamRule<false>>) -> Box<dyn UpdateObject> {
    if step.rule.amsgrad { step.formula::<4, 4>() } else { step.formula::<3, 4>() }
}

/// The formula of [`AdamW`].
#[inline(never)]
fn adamw(step: Step<AdamRule<true>>) -> Box<dyn UpdateObject> {
    if step.rule.amsgrad { step.formula::<4, 4>() } else { step.formula::<3, 4>() }
}
