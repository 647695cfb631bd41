//! `Sgd`: stochastic gradient descent, with momentum.

use super::rule::setters;
use super::{At, Descent, Range, Rule, Setting, Step};
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;

/// Stochastic gradient descent.
///
/// With g the gradient plus `weight_decay` times the parameter: buffer = momentum * buffer +
/// (1 - dampening) * g (the first step sets buffer = g), and the parameter goes down `lr` times the
/// buffer; with `nesterov`, `lr` times g + momentum * buffer.
pub type Sgd<B> = Descent<B, SgdRule>;

/// The settings of [`Sgd`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SgdRule {
    momentum: f64,
    dampening: f64,
    nesterov: bool,
}

setters! { SgdRule:
    /// Momentum, in 0..1.
    momentum: f64;
    /// Dampening of the gradient in the buffer.
    dampening: f64;
    /// Nesterov momentum. Needs momentum, and no dampening.
    nesterov: bool;
}

impl Rule for SgdRule {
    const NAME: &'static str = "sgd";
    const COUNTS: bool = false;

    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
        vec![
            ("momentum", Setting::Number(&mut self.momentum, Range::BelowOne)),
            ("dampening", Setting::Number(&mut self.dampening, Range::Finite)),
            ("nesterov", Setting::Flag(&mut self.nesterov)),
        ]
    }
    fn conflict(&self) -> Option<String> {
        (self.nesterov && (self.momentum == 0.0 || self.dampening != 0.0)).then(|| {
            format!(
                "nesterov with momentum {} and dampening {}; momentum should be above 0, and dampening 0",
                self.momentum, self.dampening
            )
        })
    }
    fn keeps(&self) -> Vec<(&'static str, f64)> {
        if self.momentum == 0.0 { vec![] } else { vec![("momentum_buffer", 0.0)] }
    }
    /// lr, and the weight of the gradient in the buffer: 1 in the first step.
    fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
        if self.momentum == 0.0 {
            vec![at.lr]
        } else {
            vec![at.lr, if at.fresh { 1.0 } else { 1.0 - self.dampening }]
        }
    }
    #[inline(always)]
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L {
        let lr = s[0];
        let [buffer] = states else { return (-lr).fma(g, x) };
        *buffer = L::lit(self.momentum).fma(*buffer, s[1] * g);
        let down = if self.nesterov { L::lit(self.momentum).fma(*buffer, g) } else { *buffer };
        (-lr).fma(down, x)
    }
    #[inline(never)]
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
        if step.rule.momentum == 0.0 { step.formula::<1, 3>() } else { step.formula::<2, 4>() }
    }
}
