//! `Lion`: steps of constant size, in the direction of the sign of a running average
//! (Chen et al. 2023).

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Lion.
///
/// The parameter goes down lr * sign(b1 * m + (1 - b1) * g), after which m = b2 * m + (1 - b2) * g.
/// Weight decay is decoupled from the gradient. Every weight moves by lr, so it needs a learning
/// rate 3 to 10 times smaller than [`super::AdamW`]'s, and a weight decay larger by the same
/// factor.
pub type Lion<B> = Descent<B, LionRule>;

/// The settings of [`Lion`].
#[derive(Clone, Copy, Debug)]
pub struct LionRule {
    betas: [f64; 2],
}

impl Default for LionRule {
    fn default() -> Self {
        LionRule { betas: [0.9, 0.99] }
    }
}

setters! { LionRule:
    /// The weight of the average in a step, and its decay, each in 0..1 (default (0.9, 0.99)).
    betas: ();
}

impl Rule for LionRule {
    const NAME: &'static str = "lion";
    const COUNTS: bool = false;

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![("betas", Setting::Numbers(&mut self.betas, Range::BelowOne))]
    }
    fn decoupled(&self) -> bool {
        true
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0)]
    }
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        vec![at.lr]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let m = states[0];
        let blend = |b: f64| L::lit(b).fma(m, L::lit(1.0 - b) * g);
        let c = blend(self.betas[0]);
        // 0 and NaN are unchanged.
        let is_signed = c.lt(L::lit(0.0)) | c.gt(L::lit(0.0));
        let sign = L::select(is_signed, L::lit(1.0).copysign(c), c);
        states[0] = blend(self.betas[1]);
        (-s[0]).fma(sign, x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        step.formula::<2, 3>()
    }
}
