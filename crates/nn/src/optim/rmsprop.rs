//! `RmsProp`: steps scaled by a running average of the gradient's square.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// RMSprop.
///
/// v = alpha * v + (1 - alpha) * g^2 and d = g / (sqrt(v) + eps); if `centered`, a = alpha * a +
/// (1 - alpha) * g and v in that line is v - a^2. The parameter goes down lr * d; with `momentum`,
/// lr * b, where b = momentum * b + d.
pub type RmsProp<B> = Descent<B, RmsPropRule>;

/// The settings of [`RmsProp`].
#[derive(Clone, Copy, Debug)]
pub struct RmsPropRule {
    alpha: f64,
    eps: f64,
    momentum: f64,
    centered: bool,
}

impl Default for RmsPropRule {
    fn default() -> Self {
        RmsPropRule { alpha: 0.99, eps: 1e-8, momentum: 0.0, centered: false }
    }
}

setters! { RmsPropRule:
    /// Decay of the running averages, in 0..1 (default 0.99).
    alpha: f64;
    /// Added to the denominator, for gradients near 0 (default 1e-8).
    eps: f64;
    /// Momentum, in 0..1.
    momentum: f64;
    /// Scales by an estimate of the variance: the squared mean is subtracted.
    centered: bool;
}

impl Rule for RmsPropRule {
    const NAME: &'static str = "rmsprop";
    const COUNTS: bool = false;

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("alpha", Setting::Number(&mut self.alpha, Range::BelowOne)),
            ("eps", Setting::Number(&mut self.eps, Range::NotNegative)),
            ("momentum", Setting::Number(&mut self.momentum, Range::BelowOne)),
            ("centered", Setting::Flag(&mut self.centered)),
        ]
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        let mut all = vec![("square_avg", 0.0)];
        all.extend((self.momentum != 0.0).then_some(("momentum_buffer", 0.0)));
        all.extend(self.centered.then_some(("grad_avg", 0.0)));
        all
    }
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        vec![at.lr]
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let (keep, take) = (L::lit(self.alpha), L::lit(1.0 - self.alpha));
        let [square, rest @ ..] = states else { unreachable!("an average") };
        let (buffer, mean) = match rest {
            [buffer, mean, ..] => (Some(buffer), Some(mean)),
            [mean] if self.centered => (None, Some(mean)),
            [buffer] => (Some(buffer), None),
            [] => (None, None),
        };
        *square = keep.fma(*square, take * g * g);
        let mut scale = *square;
        if let Some(mean) = mean {
            *mean = keep.fma(*mean, take * g);
            scale = (-*mean).fma(*mean, *square);
        }
        let mut down = g / (scale.sqrt() + L::lit(self.eps));
        if let Some(buffer) = buffer {
            *buffer = L::lit(self.momentum).fma(*buffer, down);
            down = *buffer;
        }
        (-s[0]).fma(down, x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        match step.rule.keeps().len() {
            1 => step.formula::<2, 3>(),
            2 => step.formula::<3, 3>(),
            _ => step.formula::<4, 3>(),
        }
    }
}
