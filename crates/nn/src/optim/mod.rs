//! Optimisers: how weights follow their gradients.
//!
//! ```
//! # use elinvar_nn::{Backend, Module};
//! # use elinvar_nn::optim::{Adam, Group, Muon, Optimizer, Sgd, Split, AdamW};
//! # fn make<B: Backend>() -> Vec<Box<dyn Optimizer<B>>> {
//! # vec![
//! Box::new(Sgd::new(0.1).momentum(0.9).nesterov(true)),
//! // Settings of their own for some parameters.
//! Box::new(Adam::new(1e-3).group(Group::matching(|name| name.ends_with("bias")).weight_decay(0.0))),
//! // Another optimiser for some parameters.
//! Box::new(Split::new(AdamW::new(1e-3)).with(Muon::new(0.02), |name, shape| shape.rank() >= 2 && name != "head.weight")),
//! # ]}
//! ```
//!
//! An optimiser keeps its state by the parameter's name, so that it can be saved
//! ([`OptimizerState`]) and put back: a run that goes on from a saved state makes the same steps,
//! bit for bit. The arithmetic of a step is one formula of numbers ([`Rule::lane`]), which every
//! backend runs as it likes best.
//!
//! **Numbers that change from step to step** (the learning rate, Adam's bias corrections) are
//! computed here in f64, rounded once to the type in which the parameter is computed, and given to
//! the formula as operands of shape [], so that a step never needs another kernel than the step
//! before. Powers are `power`, not the platform's. **Numbers that stay** (momentum, eps) are
//! attributes of the formula.
//!
//! **Parameters and states change where they lie**, in one pass over all of them
//! ([`elinvar_ops::update`]), unless somebody else holds the memory: who took a parameter's value
//! before a step keeps the numbers of then. While a step is made, nobody else can read the
//! parameters: [`Param::get`] waits.
//!
//! f16 and bf16 parameters take their step in f32 with a state in f32, and are rounded once.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod clip;
mod descent;
mod group;
mod kept;
mod lion;
mod muon;
mod nadam;
mod radam;
mod rmsprop;
mod rule;
pub mod schedule;
mod sgd;
mod split;
mod state;
mod update;

pub use adadelta::{Adadelta, AdadeltaRule};
pub use adagrad::{Adagrad, AdagradRule};
pub use adam::{Adam, AdamRule, AdamW};
pub use adamax::{Adamax, AdamaxRule};
pub use clip::{ClipOptions, NormType, clip_grad_norm, clip_grad_norm_with, clip_grad_value, get_total_norm};
pub use descent::Descent;
pub use group::Group;
pub use lion::{Lion, LionRule};
pub use muon::{Muon, MuonRule};
pub use nadam::{NAdam, NAdamRule};
pub use radam::{RAdam, RAdamRule};
pub use rmsprop::{RmsProp, RmsPropRule};
pub use rule::{At, Range, Rule, Setting};
pub use sgd::{Sgd, SgdRule};
pub use split::Split;
pub use state::{OptimizerState, names_of};
pub use update::{Step, Work, each};

use crate::{Module, Param};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Gradients;

/// Parameters with their names.
pub type Named<'a, B> = [(String, &'a Param<B>)];

/// Changes a module's parameters by their gradients.
pub trait Optimizer<B: Backend> {
    /// One step of these parameters: each that is not frozen and has a gradient gets a new value;
    /// one that is there twice makes one step, under its first name. Gives their number.
    ///
    /// # Errors
    /// As [`Optimizer::step`], but that no parameter has a gradient is none.
    fn step_some(&mut self, parameters: &Named<'_, B>, gradients: &Gradients<B>) -> Result<usize>;
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Sets the learning rate of the steps to come.
    fn set_lr(&mut self, lr: f64);
    /// Number of parameter groups: those that were made, and one of the parameters that are in
    /// none.
    fn groups(&self) -> usize;
    /// The state of these parameters and the settings, on the host. Waits for the device.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; what the device reports.
    fn state_of(&self, parameters: &Named<'_, B>) -> Result<OptimizerState>;
    /// Checks a state for these parameters and moves it to the device. What it gives puts the state
    /// in its place, which cannot fail.
    ///
    /// # Errors
    /// As [`Optimizer::load_state_dict`].
    fn prepare<'a>(
        &'a mut self,
        parameters: &Named<'_, B>,
        from: &OptimizerState,
    ) -> Result<Box<dyn FnOnce() + 'a>>;

    /// One step: every parameter that is not frozen and has a gradient gets a new value.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; `Autograd` if no parameter at all has a
    /// gradient here: those of the weights before the last step, say; `ShapeMismatch`,
    /// `DTypeMismatch`, `DeviceMismatch` if a gradient or a state does not fit its parameter;
    /// `OutOfMemory`. All of this is found out before the first parameter changes; after an error
    /// in the step itself (a device that fails, or memory for what Muon makes of its matrices) some
    /// parameters, with their states, may have made the step and others not.
    fn step(&mut self, module: &dyn Module<B>, gradients: &Gradients<B>) -> Result<()> {
        let parameters = module.named_parameters();
        let trained = parameters.iter().filter(|(_, p)| !p.is_frozen()).count();
        if self.step_some(&parameters, gradients)? == 0 && trained > 0 {
            return Err(Error::autograd(format!(
                "step: none of the {trained} parameters has a gradient here; gradients belong to the weights that they \
                 were computed from, and a step makes new ones"
            )));
        }
        Ok(())
    }
    /// The state of a module's parameters and the settings, on the host. Waits for the device.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; what the device reports.
    fn state_dict(&self, module: &dyn Module<B>) -> Result<OptimizerState> {
        self.state_of(&module.named_parameters())
    }
    /// Goes on from a state: everything is checked, and moved to the devices of the parameters,
    /// before anything changes. Settings are those of the state, learning rates included; a state
    /// without groups leaves them as they are. Parameters of which the state says nothing begin
    /// anew.
    ///
    /// # Errors
    /// `InvalidArgument` with the name if the state is of another optimiser, of a parameter that
    /// the module has not, or of other groups, or if a setting is unknown or out of its range;
    /// `ShapeMismatch` or `DTypeMismatch` if a tensor does not fit the parameter; `OutOfMemory`.
    fn load_state_dict(&mut self, module: &dyn Module<B>, from: &OptimizerState) -> Result<()> {
        let commit = self.prepare(&module.named_parameters(), from)?;
        commit();
        Ok(())
    }
}

/// `base` to a whole power, by squaring: the same bits on every machine, and a function of the
/// step's number alone.
pub(crate) fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut out) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_repeated_multiplication() {
        for (base, exponent, want) in
            [(0.9, 0, 1.0), (0.9, 1, 0.9), (2.0, 10, 1024.0), (0.5, 1074, 5e-324), (0.999, 1 << 40, 0.0)]
        {
            assert_eq!(power(base, exponent), want, "{base} to the power of {exponent}");
        }
        let slow = (0..1000).fold(1.0, |p, _| p * 0.999);
        assert!((power(0.999, 1000) / slow - 1.0f64).abs() < 1e-13);
    }
}
