//! `TrainStep`: forward, backward, clipping, scaling and the optimiser's step as one unit, which
//! can be captured and replayed.
//!
//! A captured step does on the device what the plain one does, and the host computes the same few
//! numbers for it: learning rate and bias corrections, and the streams of random numbers. Both go
//! to tables in device memory before each replay.
//!
//! How it can be wrong: memory that a recording changes in place, and that another handle sees. So
//! before each replay the parameters, states and buffers get memory of their own; if that moves
//! them, the step is recorded again.

use super::capture::Undo;
use super::recorded::{Access, Key, Recorded, TensorBatch};
use super::{Measured, Objective};
use crate::Module;
use crate::optim::schedule::Schedule;
use crate::optim::steps_made::StepsMade;
use crate::optim::{GradScaler, Optimizer, clip_grad_norm, clip_grad_value};
use elinvar_core::{DType, Error, ErrorKind, Result};
use elinvar_ops::Backend;
use elinvar_ops::recording::{Place, observe_step};
use elinvar_tensor::{Gradients, Tensor, autocast, autocast_dtype, isolated, try_run};

/// A type-erased objective, so that its users have one type parameter less.
pub(super) trait ErasedObjective<B: Backend, M, D>: Sync {
    fn measure(&self, model: &M, batch: &D) -> Result<Measured<B>>;
}

struct Erased<O>(O);

impl<B: Backend, M, D, O: Objective<B, M, D>> ErasedObjective<B, M, D> for Erased<O> {
    fn measure(&self, model: &M, batch: &D) -> Result<Measured<B>> {
        self.0.measure(model, batch)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Clip {
    Norm(f64),
    Value(f64),
}

/// Gives the batch of a number to a function.
pub(super) type Batches<'b, D> = dyn FnMut(usize, &mut dyn FnMut(&D) -> Result<()>) -> Result<()> + 'b;
/// The same, to be kept.
pub(super) type Given<'b, D> = dyn FnMut(usize, &mut dyn FnMut(D) -> Result<()>) -> Result<()> + 'b;

/// A training step of a model: the gradients of an objective, clipped, and an optimiser's step with
/// them.
///
/// With [`TrainStep::capture`] the step is recorded and replayed. On a GPU a step is then one
/// launch of a graph (on Vulkan one command buffer) instead of hundreds of calls; the CPU and the
/// reference make the step as always, under the same rules. **A captured step gives
/// the bits of the plain one**, on every backend, whatever the optimiser, also with dropout, with
/// steps that are skipped, and when it goes on from a checkpoint.
///
/// The first step is made plainly, which makes the optimiser's states. A step is recorded for each
/// set of shapes of its batches, and again when something that it reads is another: parameters that
/// were set, frozen or loaded, another mode, another optimiser.
///
/// What a captured step may not do is an error that says what, and changes nothing: read elements
/// on the host (`to_vec`, `nonzero`), draw random numbers on the host
/// ([`crate::RandomState::draw`]; layers use [`crate::RandomState::stream`]), keep tensors that it
/// does not return, or a value of a parameter. Gradients by every parameter that takes part stay
/// the same set as long as the shapes do.
///
/// ```
/// use elinvar_nn::layers::Linear;
/// use elinvar_nn::optim::Adam;
/// use elinvar_nn::train::{Measured, TrainStep};
/// use elinvar_nn::{Generator, Layer, Tensor};
/// use elinvar_ops::catalogue::reduction::Reduction;
/// use elinvar_reference::{Reference, ReferenceDevice};
///
/// let net: Linear<Reference> = Linear::new(2, 1, &mut Generator::new(0), &ReferenceDevice);
/// let mut adam = Adam::new(0.1);
/// let objective = |net: &Linear<Reference>, (x, y): &(Tensor<Reference>, Tensor<Reference>)| {
///     let loss = net.forward(x).mse_loss(y, Reduction::Mean);
///     Ok(Measured { loss, samples: x.size(0), metrics: vec![] })
/// };
/// let mut step = TrainStep::new(&net, objective).clip_grad_norm(1.0).capture();
/// let batch = (Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::from([[1.0f32], [2.0]]));
/// let first = step.run(&mut adam, &[batch.clone()])?[0].loss.to_vec::<f32>()?;
/// for _ in 0..20 {
///     step.run(&mut adam, &[batch.clone()])?; // Nothing is read: nothing waits for the device.
/// }
/// assert!(step.run(&mut adam, &[batch])?[0].loss.to_vec::<f32>()? < first);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub struct TrainStep<'a, B: Backend, M, D> {
    pub(super) model: &'a M,
    pub(super) objective: Box<dyn ErasedObjective<B, M, D> + 'a>,
    pub(super) clip: Option<Clip>,
    pub(super) amp: Option<DType>,
    pub(super) scaler: Option<GradScaler<B>>,
    /// The base learning rate, and the schedule.
    schedule: Option<(f64, Box<dyn Schedule + 'a>)>,
    made: u64,
    /// How a batch is made of tensors, if steps are captured.
    access: Option<Access<B, D>>,
    /// Has a step been made, so that the optimiser has its states?
    is_begun: bool,
    /// Does the backend make the steps itself?
    pub(super) is_direct: bool,
    /// With a scaler: how many of the pending steps the device has made.
    pub(super) counter: Option<StepsMade<B>>,
    /// Captured steps of which the host does not know whether they were skipped, each with its bool
    /// on the device; they came behind the counter's beginning.
    pub(super) pending: Vec<(Tensor<B>, Place)>,
    /// Recorded steps; the one that was replayed last is the last.
    pub(super) recorded: Vec<Recorded<B>>,
}

/// Recorded steps that are kept: each has memory for its temporary tensors.
const MAX_RECORDED: usize = 8;

impl<'a, B: Backend, M: Module<B>, D> TrainStep<'a, B, M, D> {
    /// The step of a model with this objective.
    pub fn new(model: &'a M, objective: impl Objective<B, M, D> + 'a) -> Self {
        TrainStep {
            model,
            objective: Box::new(Erased(objective)),
            clip: None,
            amp: None,
            scaler: None,
            schedule: None,
            made: 0,
            access: None,
            is_begun: false,
            is_direct: false,
            counter: None,
            pending: vec![],
            recorded: vec![],
        }
    }
    /// Clips the 2-norm of all gradients together.
    #[must_use]
    pub fn clip_grad_norm(mut self, max_norm: f64) -> Self {
        self.clip = Some(Clip::Norm(max_norm));
        self
    }
    /// Clips each element of the gradients to -value..=value.
    #[must_use]
    pub fn clip_grad_value(mut self, value: f64) -> Self {
        self.clip = Some(Clip::Value(value));
        self
    }
    /// Automatic mixed precision: the objective runs in a scope of [`elinvar_tensor::autocast`] to
    /// bf16 or f16, f16 with a [`GradScaler`].
    #[must_use]
    pub fn amp(mut self, half: DType) -> Self {
        self.amp = Some(half);
        if half == DType::F16 {
            self.scaler.get_or_insert_default();
        }
        self
    }
    /// The scaler of losses and gradients, instead of the default one. Between two plain steps the
    /// optimiser waits for one bool of the device: whether the last was skipped. Captured steps
    /// wait for as many of them once in 64 steps, as the device has the scalars of every number of
    /// steps that may have been made; more often if a rule has numbers of its own
    /// ([`crate::optim::Rule::numbers`]) that depend on settings which change from step to step.
    #[must_use]
    pub fn grad_scaler(mut self, scaler: GradScaler<B>) -> Self {
        self.scaler = Some(scaler);
        self
    }
    /// The schedule of the learning rate, with its base: each step sets the optimiser's rate.
    #[must_use]
    pub fn schedule(mut self, base_lr: f64, schedule: impl Schedule + 'a) -> Self {
        self.schedule = Some((base_lr, Box::new(schedule)));
        self
    }
    /// Goes on at this number of steps, from which the schedule counts.
    #[must_use]
    pub fn starting_at(mut self, step: u64) -> Self {
        self.made = step;
        self
    }
    /// Captures steps, and replays them. Batches are of tensors alone.
    #[must_use]
    pub fn capture(mut self) -> Self
    where
        D: TensorBatch<B>,
    {
        self.access = Some(Access::new());
        self
    }
    /// The settings of amp.
    pub(super) fn half(&self) -> Option<DType> {
        self.amp
    }
    /// The settings on which the bits of a step depend, as a text.
    pub(super) fn settings(&self) -> String {
        format!("{:?} {:?} {}", self.clip, self.amp, self.scaler.is_some())
    }
    /// Are steps captured?
    pub(super) fn is_captured(&self) -> bool {
        self.access.is_some()
    }
    /// The scaler, to look at its state or to load one.
    pub fn scaler(&mut self) -> Option<&mut GradScaler<B>> {
        self.scaler.as_mut()
    }
    /// Steps that are recorded at the moment: one for each set of shapes. 0 on a backend that makes
    /// the steps itself.
    pub fn recordings(&self) -> usize {
        self.recorded.len()
    }

    /// One step: for the mean gradient of the batches, of which there is one at least. Gives what
    /// was measured of each, on the device.
    ///
    /// # Errors
    /// Those of the objective, the clipping, the scaler and the optimiser; `InvalidArgument` if
    /// there is no batch. If it is captured: `Unsupported` if the step does what it may not;
    /// `InvalidArgument` if it keeps a tensor; `DeviceMismatch` if batch and parameters are on
    /// several devices; `OutOfMemory`. If it is captured and fails, parameters, states, buffers and
    /// random numbers are what they were.
    pub fn run(&mut self, optimizer: &mut dyn Optimizer<B>, batches: &[D]) -> Result<Vec<Measured<B>>> {
        if batches.is_empty() {
            return Err(Error::argument("a training step without a batch has no gradient"));
        }
        if let Some((base, schedule)) = &self.schedule {
            optimizer.set_lr(schedule.lr(*base, self.made));
        }
        let told = match self.access {
            Some(access) => self.run_captured(access, optimizer, batches)?,
            None => self.run_plain(optimizer, batches.len(), &mut |i, f| f(&batches[i]))?,
        };
        self.made += 1;
        Ok(told)
    }

    /// The step as it is without capturing.
    pub(super) fn run_plain(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        n: usize,
        batches: &mut Batches<'_, D>,
    ) -> Result<Vec<Measured<B>>> {
        let (told, mut gradients) = self.gradients(n, batches)?;
        self.finish(optimizer, &mut gradients)?;
        Ok(told)
    }
    fn run_captured(
        &mut self,
        access: Access<B, D>,
        optimizer: &mut dyn Optimizer<B>,
        batches: &[D],
    ) -> Result<Vec<Measured<B>>> {
        let each: Vec<Vec<Tensor<B>>> = batches.iter().map(access.tensors).collect();
        let given: Vec<Tensor<B>> = each.iter().flatten().cloned().collect();
        let key = Key::new(&each);
        let mut before = vec![];
        if let Some(i) = self.recorded.iter().position(|r| r.key == key) {
            let known = self.recorded.remove(i);
            self.recorded.push(known);
            if let Some(told) = self.replay(optimizer, &given)? {
                return Ok(told);
            }
            before = self.recorded.pop().map_or_else(Vec::new, |r| r.inputs);
        }
        if self.is_begun && !self.is_direct {
            let recorded = self.record(access, optimizer, batches, &given, key, &before);
            if let (Err(_), Some(scaler)) = (&recorded, &mut self.scaler) {
                scaler.forget();
            }
            if recorded.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unsupported) {
                self.probe(batches)?;
            }
            if let Some(new) = recorded? {
                if self.recorded.len() == MAX_RECORDED {
                    self.recorded.remove(0);
                }
                self.recorded.push(new);
                let told = self.replay(optimizer, &given)?;
                return told.ok_or_else(|| {
                    drop(self.recorded.pop());
                    Error::unsupported("a captured step reads something that changes while it is recorded")
                });
            }
        }
        // What a recording refuses is refused here, too.
        let undo = Undo::<B>::of(self.model);
        let made = self.run_observed(optimizer, batches);
        if made.is_err() {
            self.scaler.iter_mut().for_each(|s| s.forget());
            undo.run()?;
        }
        self.is_begun |= made.is_ok();
        made
    }
    /// The plain step, under the rules of a recording.
    fn run_observed(&mut self, optimizer: &mut dyn Optimizer<B>, batches: &[D]) -> Result<Vec<Measured<B>>> {
        let half = autocast_dtype();
        let take = &mut |i, f: &mut dyn FnMut(&D) -> Result<()>| f(&batches[i]);
        let observed = observe_step(|| isolated(half, || self.gradients(batches.len(), take)));
        let ((told, mut gradients), _) = observed?;
        self.finish(optimizer, &mut gradients)?;
        Ok(told)
    }

    /// What is measured of the batches, and the gradients, divided and clipped.
    pub(super) fn gradients(
        &mut self,
        n: usize,
        batches: &mut Batches<'_, D>,
    ) -> Result<(Vec<Measured<B>>, Gradients<B>)> {
        let mut gradients: Option<Gradients<B>> = None;
        let mut measured = Vec::with_capacity(n);
        let (objective, model, amp, scaler) = (&self.objective, self.model, self.amp, &mut self.scaler);
        for i in 0..n {
            batches(i, &mut |batch| {
                let (told, g) = try_run(|| -> Result<_> {
                    let measure = || objective.measure(model, batch);
                    let mut m = match amp {
                        Some(half) => autocast(half, measure)?,
                        None => measure()?,
                    };
                    let loss = if n == 1 { m.loss.clone() } else { &m.loss * (1.0 / n as f64) };
                    let g = match scaler {
                        Some(scaler) => scaler.scale(&loss)?.backward(),
                        None => loss.backward(),
                    };
                    m.loss = m.loss.detach();
                    m.metrics.iter_mut().for_each(|(_, t)| *t = t.detach());
                    Ok((m, g))
                })??;
                measured.push(told);
                match &mut gradients {
                    None => gradients = Some(g),
                    Some(sum) => sum.accumulate(g)?,
                }
                Ok(())
            })?;
        }
        let mut gradients = gradients.expect("a step has a batch at least");
        self.clipped(&mut gradients)?;
        Ok((measured, gradients))
    }
    /// Divides and clips the gradients of a step.
    pub(super) fn clipped(&mut self, gradients: &mut Gradients<B>) -> Result<()> {
        if let Some(scaler) = &mut self.scaler {
            scaler.unscale(self.model, gradients)?;
        }
        match self.clip {
            None => Ok(()),
            Some(Clip::Norm(most)) => clip_grad_norm(self.model, gradients, most).map(drop),
            Some(Clip::Value(most)) => clip_grad_value(self.model, gradients, most),
        }
    }
    /// The optimiser's step.
    pub(super) fn finish(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        gradients: &mut Gradients<B>,
    ) -> Result<()> {
        match &mut self.scaler {
            Some(scaler) => {
                scaler.step(optimizer, self.model, gradients)?;
                scaler.update()
            }
            None => optimizer.step(self.model, gradients),
        }
    }
}
