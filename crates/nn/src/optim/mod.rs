//! Optimisers.
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
//! An optimiser stores its state by the parameter's name, so that it can be saved
//! ([`OptimizerState`]) and restored: a run that resumes from a saved state makes the same steps,
//! bit for bit. The arithmetic of a step is one scalar formula ([`Rule::lane`]), which every
//! backend vectorises.
//!
//! **Numbers that change from step to step** (the learning rate, Adam's bias corrections) are
//! computed here in f64, rounded once to the compute dtype of the parameter, and passed to the
//! formula as operands of shape [], so that all steps use the same kernel. Powers are `power`, not
//! the platform's. **Constants** (momentum, eps) are attributes of the formula.
//!
//! **Parameters and states are updated in place**, in one pass over all of them
//! ([`elinvar_ops::update`]), unless the memory is shared: a value taken from a parameter before a
//! step keeps its elements. During a step the parameters are locked: [`Param::get`] waits.
//!
//! Parameters of storage floats are updated in f32 with a state in f32, and rounded once.

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
mod asgd;
mod clip;
mod descent;
mod group;
mod kept;
mod lbfgs;
mod lion;
mod load;
mod make;
mod muon;
mod nadam;
mod optimizer;
mod plan;
mod radam;
mod record;
mod rmsprop;
mod rprop;
mod rule;
mod scaler;
pub mod schedule;
mod sgd;
mod split;
mod state;
pub(crate) mod steps_made;
mod table;
mod update;

pub use adadelta::{Adadelta, AdadeltaRule};
pub use adafactor::{Adafactor, AdafactorRule};
pub use adagrad::{Adagrad, AdagradRule};
pub use adam::{Adam, AdamRule, AdamW};
pub use adamax::{Adamax, AdamaxRule};
pub use asgd::{Asgd, AsgdRule};
pub use clip::{ClipOptions, NormType, clip_grad_norm, clip_grad_norm_with, clip_grad_value, get_total_norm};
pub(crate) use clip::{norms, not_negative, of_norms, scale_to, widest, with_gradients};
pub use descent::Descent;
pub use group::Group;
pub use lbfgs::{Lbfgs, LineSearch};
pub use lion::{Lion, LionRule};
pub use muon::{Muon, MuonRule};
pub use nadam::{NAdam, NAdamRule};
pub use radam::{RAdam, RAdamRule};
pub use rmsprop::{RmsProp, RmsPropRule};
pub use rprop::{Rprop, RpropRule};
pub use rule::{At, Range, Rule, Setting};
pub use scaler::{GradScaler, ScalerState};
pub use sgd::{Sgd, SgdRule};
pub use split::Split;
pub use state::{OptimizerState, names_of};
pub use table::{StepScalars, StepTable};
pub use update::{Step, Work, each};

use crate::{Module, Param, Reader};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Gradients, Tensor};

/// Parameters with their names.
pub type Named<'a, B> = [(String, &'a Param<B>)];

/// Updates a module's parameters by their gradients.
pub trait Optimizer<B: Backend> {
    /// One step of these parameters: each that is not frozen and has a gradient is updated; a
    /// duplicate makes one step, under its first name. Returns the number of updated parameters.
    ///
    /// `skip`, one bool of shape [], says whether the step is skipped: parameters and states then
    /// keep their bits, and no step is counted. The device decides; the host reads the bool when
    /// it needs the number of steps, which is in the next step, or for a state.
    ///
    /// # Errors
    /// As [`Optimizer::step`], but it is not an error if no parameter has a gradient;
    /// `InvalidArgument` if `skip` is not one bool.
    fn step_some(
        &mut self,
        parameters: &Named<'_, B>,
        gradients: &Gradients<B>,
        skip: Option<&Tensor<B>>,
    ) -> Result<usize>;
    /// [`Optimizer::step_some`] of a [`crate::train::TrainStep`] that is captured: the scalars of
    /// the step come from `table`, and no step is counted. Returns the names of the parameters that
    /// are updated; `None`, and nothing is recorded, if one of them has no state yet, which its
    /// first step makes.
    ///
    /// # Errors
    /// As [`Optimizer::step_some`]; `Unsupported` if the optimiser cannot be captured. After an
    /// error nothing has changed.
    fn record_step(
        &mut self,
        _parameters: &Named<'_, B>,
        _gradients: &Gradients<B>,
        _skip: Option<&Tensor<B>>,
        _table: &mut StepTable<B>,
    ) -> Result<Option<Vec<String>>> {
        Err(not_captured())
    }
    /// The scalars of the next step of these parameters, all of which make it, in the order of
    /// [`Optimizer::record_step`], once for each number of steps that may have been made of those
    /// that `to` names. Their states get memory of their own. Waits for the device if the last step
    /// may have been skipped and `to` does not name it.
    ///
    /// # Errors
    /// As [`Optimizer::record_step`]; what the device reports.
    fn plan_step(&mut self, _parameters: &Named<'_, B>, _to: &mut StepScalars) -> Result<()> {
        Err(not_captured())
    }
    /// Counts the step that [`Optimizer::plan_step`] has planned, which the device has been given.
    /// `skip`: as for [`Optimizer::step_some`].
    ///
    /// # Errors
    /// As [`Optimizer::record_step`].
    fn count_step(&mut self, _parameters: &Named<'_, B>, _skip: Option<&Tensor<B>>) -> Result<()> {
        Err(not_captured())
    }
    /// The learning rate.
    fn lr(&self) -> f64;
    /// Sets the learning rate of the next steps.
    fn set_lr(&mut self, lr: f64);
    /// Number of parameter groups: the explicit ones, and one of all other parameters.
    fn groups(&self) -> usize;
    /// The state of these parameters and the settings, on the host. Waits for the device.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; what the device reports.
    fn state_of(&self, parameters: &Named<'_, B>, read: &mut Reader<'_, B>) -> Result<OptimizerState>;
    /// Checks a state for these parameters and uploads it. The returned closure installs the state,
    /// which cannot fail.
    ///
    /// # Errors
    /// As [`Optimizer::load_state_dict`].
    fn prepare<'a>(
        &'a mut self,
        parameters: &Named<'_, B>,
        from: &OptimizerState,
    ) -> Result<Box<dyn FnOnce() + 'a>>;

    /// One step: every parameter that is not frozen and has a gradient is updated.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; `Autograd` if no parameter has a
    /// gradient here, for example because the gradients are of the weights before the last step;
    /// `ShapeMismatch`, `DTypeMismatch`, `DeviceMismatch` if a gradient or a state does not fit its
    /// parameter; `OutOfMemory`. All of this is checked before the first parameter changes; after
    /// an error in the step itself (a device failure, or no memory for Muon's temporary matrices)
    /// some parameters, with their states, may be updated and others not.
    fn step(&mut self, module: &dyn Module<B>, gradients: &Gradients<B>) -> Result<()> {
        self.step_unless(None, module, gradients)
    }
    /// [`Optimizer::step`], which is skipped if `skip` says so: see [`Optimizer::step_some`].
    ///
    /// # Errors
    /// As [`Optimizer::step`] and [`Optimizer::step_some`].
    fn step_unless(
        &mut self,
        skip: Option<&Tensor<B>>,
        module: &dyn Module<B>,
        gradients: &Gradients<B>,
    ) -> Result<()> {
        let parameters = module.named_parameters();
        let updated = self.step_some(&parameters, gradients, skip)?;
        check_updated(&parameters, updated)
    }
    /// The state of a module's parameters and the settings, on the host. Waits for the device.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; what the device reports.
    fn state_dict(&self, module: &dyn Module<B>) -> Result<OptimizerState> {
        self.state_of(&module.named_parameters(), &mut |x| x.to_host())
    }
    /// Restores a state: everything is checked, and uploaded to the devices of the parameters,
    /// before anything changes. Settings are those of the state, including learning rates; a state
    /// without groups does not change them. Parameters that are not in the state are reset.
    ///
    /// # Errors
    /// `InvalidArgument` with the name if the state is of another optimiser, of a parameter that
    /// the module lacks, or of other groups, or if a setting is unknown or out of its range;
    /// `ShapeMismatch` or `DTypeMismatch` if a tensor does not fit the parameter; `OutOfMemory`.
    fn load_state_dict(&mut self, module: &dyn Module<B>, from: &OptimizerState) -> Result<()> {
        let commit = self.prepare(&module.named_parameters(), from)?;
        commit();
        Ok(())
    }
}

fn not_captured() -> Error {
    Error::unsupported("this optimiser cannot be captured: it does not record its step")
}

/// Checks that a step of these parameters has updated some of them.
///
/// # Errors
/// `Autograd` if not, unless all are frozen.
pub(crate) fn check_updated<B: Backend>(parameters: &Named<'_, B>, updated: usize) -> Result<()> {
    let trained = parameters.iter().filter(|(_, p)| !p.is_frozen()).count();
    if updated == 0 && trained > 0 {
        return Err(Error::autograd(format!(
            "step: none of the {trained} parameters has a gradient here; gradients belong to the weights that they \
             were computed from, and a step makes new ones"
        )));
    }
    Ok(())
}

/// Collects an iterator to a map or set by way of a list: the collections sort, and the sort would
/// otherwise be compiled for each iterator type.
fn sorted<T, C: FromIterator<T>>(all: impl Iterator<Item = T>) -> C {
    all.collect::<Vec<_>>().into_iter().collect()
}

/// `base` to an integer power, by squaring: the same bits on every machine, and a function of the
/// step number alone.
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
