//! `Adam` and `AdamW`: steps scaled by running averages of the gradient and of its square.

use super::state::{Memo, States};
use super::{Optimizer, below_one, check, not_negative, power};
use crate::Module;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::array::{self, Array};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Map;
use elinvar_tensor::Gradients;

/// Adam: weight decay is added to the gradient.
pub type Adam<B> = AdamKind<B, false>;
/// AdamW: weight decay (0.01 at first) shrinks the parameter, apart from the gradient.
pub type AdamW<B> = AdamKind<B, true>;

/// Adam (`DECOUPLED` false) or AdamW (true).
///
/// m = b1 * m + (1 - b1) * g, v = b2 * v + (1 - b2) * g^2, and in step t the parameter goes down
/// lr * (m / (1 - b1^t)) / (sqrt(v) / sqrt(1 - b2^t) + eps); with `amsgrad`, v in that line is the largest so far.
/// lr / (1 - b1^t), sqrt(1 - b2^t) and AdamW's 1 - lr * weight_decay are computed in f64.
#[derive(Clone, Debug)]
pub struct AdamKind<B: Backend, const DECOUPLED: bool> {
    lr: f64,
    settings: Settings,
    amsgrad: bool,
    states: States<B>,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    maximize: bool,
}

impl Settings {
    /// The gradient that everything below works with.
    #[inline(always)]
    fn gradient<L: Lane>(&self, decoupled: bool, x: L, g: L) -> L {
        let g = if self.maximize { -g } else { g };
        if decoupled || self.weight_decay == 0.0 { g } else { L::lit(self.weight_decay).fma(x, g) }
    }
}

/// The running average of the gradient after a step, of (parameter, gradient, average).
#[derive(Clone, Copy, Debug)]
struct AdamMean<const DECOUPLED: bool>(Settings);

impl<const DECOUPLED: bool> Map<3> for AdamMean<DECOUPLED> {
    const NAME: &'static str = "adam_mean";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g, m]: [L; 3]) -> L {
        let b1 = self.0.betas.0;
        L::lit(b1).fma(m, L::lit(1.0 - b1) * self.0.gradient(DECOUPLED, x, g))
    }
}

/// The running average of the gradient's square after a step, of (parameter, gradient, average).
#[derive(Clone, Copy, Debug)]
struct AdamSquare<const DECOUPLED: bool>(Settings);

impl<const DECOUPLED: bool> Map<3> for AdamSquare<DECOUPLED> {
    const NAME: &'static str = "adam_square";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g, v]: [L; 3]) -> L {
        let b2 = self.0.betas.1;
        let g = self.0.gradient(DECOUPLED, x, g);
        L::lit(b2).fma(v, L::lit(1.0 - b2) * g * g)
    }
}

/// The parameter after a step, of (parameter, m, v, shrink, size, unbias): shrink = 1 - lr * weight_decay for AdamW and
/// 1 for Adam, size = lr / (1 - b1^t), unbias = sqrt(1 - b2^t).
#[derive(Clone, Copy, Debug)]
struct AdamParam {
    eps: f64,
}

impl Map<6> for AdamParam {
    const NAME: &'static str = "adam";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, m, v, shrink, size, unbias]: [L; 6]) -> L {
        let down = m / (v.sqrt() / unbias + L::lit(self.eps));
        (-size).fma(down, x * shrink)
    }
}

/// The larger of two numbers.
#[derive(Clone, Copy, Debug)]
struct Larger;

impl Map<2> for Larger {
    const NAME: &'static str = "adam_max";
    #[inline(always)]
    fn lane<L: Lane>(&self, [a, b]: [L; 2]) -> L {
        a.max(b)
    }
}

const MEAN: &str = "exp_avg";
const SQUARE: &str = "exp_avg_sq";
const LARGEST: &str = "max_exp_avg_sq";

impl<B: Backend, const DECOUPLED: bool> AdamKind<B, DECOUPLED> {
    /// With this learning rate, betas (0.9, 0.999), eps 1e-8, and weight decay 0.01 for AdamW, 0 for Adam.
    pub fn new(lr: f64) -> Self {
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        let settings = Settings { betas: (0.9, 0.999), eps: 1e-8, weight_decay, maximize: false };
        AdamKind { lr, settings, amsgrad: false, states: States::default() }
    }
    /// How much of the running averages stays in each step, each in 0..1.
    #[must_use]
    pub fn betas(mut self, b1: f64, b2: f64) -> Self {
        self.settings.betas = (b1, b2);
        self
    }
    /// Keeps the division from blowing up where gradients vanish.
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.settings.eps = eps;
        self
    }
    /// How strongly parameters are drawn to zero.
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.settings.weight_decay = weight_decay;
        self
    }
    /// Scales by the largest running average of the square so far.
    #[must_use]
    pub fn amsgrad(mut self, amsgrad: bool) -> Self {
        self.amsgrad = amsgrad;
        self
    }
    /// Goes up instead of down.
    #[must_use]
    pub fn maximize(mut self, maximize: bool) -> Self {
        self.settings.maximize = maximize;
        self
    }
    /// What is kept per parameter.
    pub fn states(&self) -> &States<B> {
        &self.states
    }
    /// What is kept per parameter, to put back what was saved.
    pub fn states_mut(&mut self) -> &mut States<B> {
        &mut self.states
    }
    fn check(&self) -> Result<()> {
        let s = self.settings;
        check(
            if DECOUPLED { "adamw" } else { "adam" },
            &[
                ("lr", self.lr, not_negative(self.lr), "0 or more"),
                ("beta1", s.betas.0, below_one(s.betas.0), "in 0..1"),
                ("beta2", s.betas.1, below_one(s.betas.1), "in 0..1"),
                ("eps", s.eps, not_negative(s.eps), "0 or more"),
                ("weight_decay", s.weight_decay, not_negative(s.weight_decay), "0 or more"),
            ],
        )
    }
}

impl<B: Backend, const DECOUPLED: bool> Optimizer<B> for AdamKind<B, DECOUPLED> {
    fn step(&mut self, module: &dyn Module<B>, gradients: &Gradients<B>) -> Result<()> {
        self.check()?;
        let (s, lr, amsgrad) = (self.settings, self.lr, self.amsgrad);
        let op = if DECOUPLED { "adamw" } else { "adam" };
        let mut memo = Memo::new();
        self.states.each(op, module, gradients, |x: &Array<B>, g, state| {
            let t = state.step;
            let [shrink, size, unbias] = memo.get(t, x, || {
                let shrink = if DECOUPLED { 1.0 - lr * s.weight_decay } else { 1.0 };
                [shrink, lr / (1.0 - power(s.betas.0, t)), (1.0 - power(s.betas.1, t)).sqrt()]
            })?;
            let mean = array::map(&AdamMean::<DECOUPLED>(s), [x, g, &state.or_zeros(MEAN, x)?])?;
            let square = array::map(&AdamSquare::<DECOUPLED>(s), [x, g, &state.or_zeros(SQUARE, x)?])?;
            let scale = if amsgrad {
                array::map(&Larger, [&state.or_zeros(LARGEST, x)?, &square])?
            } else {
                square.clone()
            };
            let new = array::map(&AdamParam { eps: s.eps }, [x, &mean, &scale, &shrink, &size, &unbias])?;
            state.tensors.insert(MEAN, mean);
            state.tensors.insert(SQUARE, square);
            if amsgrad {
                state.tensors.insert(LARGEST, scale);
            }
            Ok(new)
        })
    }
    fn lr(&self) -> f64 {
        self.lr
    }
    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }
}
