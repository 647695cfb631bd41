//! `Sgd`: stochastic gradient descent, with momentum.

use super::state::{Memo, States};
use super::{Optimizer, below_one, check, not_negative};
use crate::Module;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::array::{self, Array};
use elinvar_ops::lane::Lane;
use elinvar_ops::map::Map;
use elinvar_tensor::Gradients;

/// Stochastic gradient descent.
///
/// With g the gradient plus `weight_decay` times the parameter: buffer = momentum * buffer + (1 - dampening) * g (the
/// first step sets buffer = g), and the parameter goes down `lr` times the buffer; with `nesterov`, `lr` times
/// g + momentum * buffer. `maximize` goes up instead.
#[derive(Clone, Debug)]
pub struct Sgd<B: Backend> {
    lr: f64,
    settings: Settings,
    states: States<B>,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
    maximize: bool,
}

impl Settings {
    /// The gradient that everything below works with.
    #[inline(always)]
    fn gradient<L: Lane>(&self, x: L, g: L) -> L {
        let g = if self.maximize { -g } else { g };
        if self.weight_decay == 0.0 { g } else { L::lit(self.weight_decay).fma(x, g) }
    }
}

/// The buffer after a step, of (parameter, gradient, buffer).
#[derive(Clone, Copy, Debug)]
struct SgdBuffer(Settings);

impl Map<3> for SgdBuffer {
    const NAME: &'static str = "sgd_buffer";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g, buffer]: [L; 3]) -> L {
        let g = self.0.gradient(x, g);
        L::lit(self.0.momentum).fma(buffer, L::lit(1.0 - self.0.dampening) * g)
    }
}

/// The buffer after the first step, of (parameter, gradient).
#[derive(Clone, Copy, Debug)]
struct SgdFirst(Settings);

impl Map<2> for SgdFirst {
    const NAME: &'static str = "sgd_first";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g]: [L; 2]) -> L {
        self.0.gradient(x, g)
    }
}

/// The parameter after a step without momentum, of (parameter, gradient, lr).
#[derive(Clone, Copy, Debug)]
struct SgdPlain(Settings);

impl Map<3> for SgdPlain {
    const NAME: &'static str = "sgd";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g, lr]: [L; 3]) -> L {
        (-lr).fma(self.0.gradient(x, g), x)
    }
}

/// The parameter after a step with momentum, of (parameter, gradient, new buffer, lr).
#[derive(Clone, Copy, Debug)]
struct SgdMomentum(Settings);

impl Map<4> for SgdMomentum {
    const NAME: &'static str = "sgd_momentum";
    #[inline(always)]
    fn lane<L: Lane>(&self, [x, g, buffer, lr]: [L; 4]) -> L {
        let down =
            if self.0.nesterov { L::lit(self.0.momentum).fma(buffer, self.0.gradient(x, g)) } else { buffer };
        (-lr).fma(down, x)
    }
}

const BUFFER: &str = "momentum_buffer";

impl<B: Backend> Sgd<B> {
    /// Plain descent with this learning rate.
    pub fn new(lr: f64) -> Self {
        let settings =
            Settings { momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0, maximize: false };
        Sgd { lr, settings, states: States::default() }
    }
    /// How much of the last step's direction stays, in 0..1.
    #[must_use]
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.settings.momentum = momentum;
        self
    }
    /// How much less of the new gradient comes into the buffer.
    #[must_use]
    pub fn dampening(mut self, dampening: f64) -> Self {
        self.settings.dampening = dampening;
        self
    }
    /// Looks ahead along the buffer. Needs momentum, and no dampening.
    #[must_use]
    pub fn nesterov(mut self, nesterov: bool) -> Self {
        self.settings.nesterov = nesterov;
        self
    }
    /// Adds this much of the parameter to its gradient.
    #[must_use]
    pub fn weight_decay(mut self, weight_decay: f64) -> Self {
        self.settings.weight_decay = weight_decay;
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
        let looks_ahead = !s.nesterov || (s.momentum > 0.0 && s.dampening == 0.0);
        check(
            "sgd",
            &[
                ("lr", self.lr, not_negative(self.lr), "0 or more"),
                ("momentum", s.momentum, below_one(s.momentum), "in 0..1"),
                ("dampening", s.dampening, s.dampening.is_finite(), "a number"),
                ("weight_decay", s.weight_decay, not_negative(s.weight_decay), "0 or more"),
                ("dampening with nesterov", s.dampening, looks_ahead, "0, and momentum above 0"),
            ],
        )
    }
}

impl<B: Backend> Optimizer<B> for Sgd<B> {
    fn step(&mut self, module: &dyn Module<B>, gradients: &Gradients<B>) -> Result<()> {
        self.check()?;
        let (s, lr) = (self.settings, self.lr);
        let mut memo = Memo::new();
        self.states.each("sgd", module, gradients, |x: &Array<B>, g, state| {
            let [lr] = memo.get(0, x, || [lr])?;
            if s.momentum == 0.0 {
                return array::map(&SgdPlain(s), [x, g, &lr]);
            }
            let buffer = match state.tensors.get(BUFFER) {
                None => array::map(&SgdFirst(s), [x, g])?,
                Some(b) => array::map(&SgdBuffer(s), [x, g, b])?,
            };
            let new = array::map(&SgdMomentum(s), [x, g, &buffer, &lr])?;
            state.tensors.insert(BUFFER, buffer);
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
