//! The training loop.

use super::score::Sums;
use super::sending::BUCKET_BYTES;
use super::shards::Sharding;
use super::validation::{Awaits, Validation, Waits};
use super::{
    Callback, Checkpoint, Checkpoints, EarlyStopping, EpochReport, Feed, Measured, Objective, Position,
    Report, Score, Source, Step, TensorBatch, TrainStep,
};
use crate::Module;
use crate::ema::Ema;
use crate::optim::schedule::{ReduceLrOnPlateau, Schedule};
use crate::optim::{GradScaler, Optimizer};
use crate::reads::Reads;
use elinvar_core::ready::ready;
use elinvar_core::{DType, Error, Result, profile};
use elinvar_distributed::Group;
use elinvar_ops::Backend;
use elinvar_ops::autocast::check;
use elinvar_tensor::try_run;
use std::collections::BTreeMap;

/// Trains a model. Built by [`Trainer::new`], set up by its methods, run by [`Trainer::run`].
pub struct Trainer<'a, B: Backend, M, S: Source<B>> {
    pub(super) model: &'a M,
    pub(super) optimizer: &'a mut dyn Optimizer<B>,
    pub(super) source: &'a S,
    pub(super) one: TrainStep<'a, B, M, S::Batch>,
    pub(super) epochs: usize,
    pub(super) accumulate: usize,
    pub(super) schedule: Option<Box<dyn Schedule + 'a>>,
    pub(super) plateau: Option<ReduceLrOnPlateau>,
    pub(super) ema: Option<&'a mut Ema<B>>,
    validation: Option<Box<dyn Validation<M> + 'a>>,
    pub(super) early: Option<EarlyStopping>,
    pub(super) callbacks: Vec<Box<dyn Callback<B> + 'a>>,
    pub(super) checkpoints: Option<Checkpoints>,
    pub(super) resume: Option<Checkpoint>,
    pub(super) shards: usize,
    pub(super) group: Option<Group>,
    pub(super) zero1: bool,
    pub(super) bucket: usize,
    pub(super) sharding: Option<Sharding>,
}

impl<'a, B: Backend, M: Module<B>, S: Source<B>> Trainer<'a, B, M, S> {
    /// Trains `model` with `optimizer` on the batches of `source`: 10 epochs by default.
    pub fn new(
        model: &'a M,
        optimizer: &'a mut dyn Optimizer<B>,
        source: &'a S,
        objective: impl Objective<B, M, S::Batch> + 'a,
    ) -> Self {
        Trainer {
            model,
            optimizer,
            source,
            one: TrainStep::new(model, objective),
            epochs: 10,
            accumulate: 1,
            schedule: None,
            plateau: None,
            ema: None,
            validation: None,
            early: None,
            callbacks: vec![],
            checkpoints: None,
            resume: None,
            shards: 1,
            group: None,
            zero1: false,
            bucket: BUCKET_BYTES,
            sharding: None,
        }
    }
    /// Number of epochs.
    #[must_use]
    pub fn epochs(mut self, epochs: usize) -> Self {
        self.epochs = epochs;
        self
    }
    /// Gradient accumulation: one step for the mean gradient of this many batches, of one at
    /// least.
    #[must_use]
    pub fn accumulate(mut self, batches: usize) -> Self {
        self.accumulate = batches;
        self
    }
    /// The schedule of the learning rate, whose base is the optimiser's.
    #[must_use]
    pub fn schedule(mut self, schedule: impl Schedule + 'a) -> Self {
        self.schedule = Some(Box::new(schedule));
        self
    }
    /// Reduces the learning rate when the validation loss stops decreasing. Needs a validation;
    /// replaces a schedule.
    #[must_use]
    pub fn reduce_on_plateau(mut self, plateau: ReduceLrOnPlateau) -> Self {
        self.plateau = Some(plateau);
        self
    }
    /// Clips the 2-norm of all gradients together.
    #[must_use]
    pub fn clip_grad_norm(mut self, max_norm: f64) -> Self {
        self.one = self.one.clip_grad_norm(max_norm);
        self
    }
    /// Clips each element of the gradients to -value..=value.
    #[must_use]
    pub fn clip_grad_value(mut self, value: f64) -> Self {
        self.one = self.one.clip_grad_value(value);
        self
    }
    /// Automatic mixed precision: the objective runs in a scope of [`elinvar_tensor::autocast`] to
    /// bf16 or f16, f16 with a [`GradScaler`]. Parameters and the optimiser's states stay what they
    /// are, f32; so do validations, which a scope in their closure makes fast, too.
    #[must_use]
    pub fn amp(mut self, half: DType) -> Self {
        self.one = self.one.amp(half);
        self
    }
    /// The scaler of losses and gradients, instead of the default one.
    #[must_use]
    pub fn grad_scaler(mut self, scaler: GradScaler<B>) -> Self {
        self.one = self.one.grad_scaler(scaler);
        self
    }
    /// Cuts each batch into so many gradient shards, a power of two. The gradient of a step is
    /// their balanced tree, whichever worker computes them: a run has the same bits on any number
    /// of workers up to this one ([`Trainer::group`]). With one shard, as by default, a batch is
    /// not cut.
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }
    /// Shares the shards of each step with other workers. All set up the same training, each on a
    /// device of its own; callbacks are each worker's own, checkpoints are written by worker 0, and
    /// a run goes on from them with any number of workers. If one ends the run, all end.
    #[must_use]
    pub fn group(mut self, group: &Group) -> Self {
        self.group = Some(group.clone());
        self
    }
    /// Captures steps, and replays them: see [`TrainStep::capture`]. The weights have the same
    /// bits. Batches that are accumulated for a step are on the device together.
    #[must_use]
    pub fn capture(mut self) -> Self
    where
        S::Batch: TensorBatch<B>,
    {
        self.one = self.one.capture();
        self
    }
    /// Maintains a moving average of the weights.
    #[must_use]
    pub fn ema(mut self, ema: &'a mut Ema<B>) -> Self {
        self.ema = Some(ema);
        self
    }
    /// The validation after each epoch.
    #[must_use]
    pub fn validate(mut self, validation: impl FnMut(&M) -> Result<Score> + 'a) -> Self {
        self.validation = Some(Box::new(Waits(validation)));
        self
    }
    /// The validation after each epoch, which waits for no device: for [`Trainer::run_async`] and
    /// [`Trainer::run_resumable_async`].
    #[must_use]
    pub fn validate_async(mut self, validation: impl AsyncFnMut(&M) -> Result<Score> + 'a) -> Self {
        self.validation = Some(Box::new(Awaits(validation)));
        self
    }
    /// Ends the run when the validation score no longer improves.
    #[must_use]
    pub fn early_stopping(mut self, early: EarlyStopping) -> Self {
        self.early = Some(early);
        self
    }
    /// Adds a callback. May be called several times.
    #[must_use]
    pub fn callback(mut self, callback: impl Callback<B> + 'a) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }
    /// Writes checkpoints.
    #[must_use]
    pub fn checkpoints(mut self, checkpoints: Checkpoints) -> Self {
        self.checkpoints = Some(checkpoints);
        self
    }
    /// Resumes from a checkpoint. Everything else must be set up as in the interrupted run.
    #[must_use]
    pub fn resume(mut self, from: Checkpoint) -> Self {
        self.resume = Some(from);
        self
    }

    /// Runs the training. Leaves the model in evaluation mode and restores the optimiser's learning
    /// rate.
    ///
    /// # Errors
    /// Those of the model, the objective, the optimiser, the source, the validation and the
    /// callbacks; `InvalidArgument` if there are no batches, none are accumulated for a step, or
    /// the loss is not finite; `Io` if a
    /// checkpoint cannot be written.
    pub fn run(self, device: &B::Device) -> Result<Report> {
        self.is_run_to_wait()?;
        ready(self.run_in(Reads::Waited, device, None)).map(|(report, _)| report)
    }

    /// As [`Trainer::run`], and returns the state at its end with these settings: if a callback
    /// ended the run at a step, another one goes on from there by [`Trainer::resume`]. So a program
    /// trains for a while at a time.
    ///
    /// # Errors
    /// As [`Trainer::run`].
    pub fn run_resumable(
        self,
        device: &B::Device,
        settings: &BTreeMap<String, String>,
    ) -> Result<(Report, Checkpoint)> {
        self.is_run_to_wait()?;
        let (report, checkpoint) = ready(self.run_in(Reads::Waited, device, Some(settings)))?;
        Ok((report, checkpoint.expect("it was asked for")))
    }
    /// [`Trainer::run`] that does not block: what it reads of the device is awaited. For a browser,
    /// which lets no program wait. A callback that wants a step's loss reads it later
    /// ([`Step::loss_later`]); a scaler of gradients, and a clipped norm, have to be waited for on
    /// some devices.
    ///
    /// # Errors
    /// As [`Trainer::run`].
    pub async fn run_async(self, device: &B::Device) -> Result<Report> {
        self.run_in(Reads::Awaited, device, None).await.map(|(report, _)| report)
    }
    /// [`Trainer::run_resumable`] that does not block, as [`Trainer::run_async`].
    ///
    /// # Errors
    /// As [`Trainer::run`].
    pub async fn run_resumable_async(
        self,
        device: &B::Device,
        settings: &BTreeMap<String, String>,
    ) -> Result<(Report, Checkpoint)> {
        let (report, checkpoint) = self.run_in(Reads::Awaited, device, Some(settings)).await?;
        Ok((report, checkpoint.expect("it was asked for")))
    }

    fn is_run_to_wait(&self) -> Result<()> {
        match self.validation.as_ref().is_some_and(|v| v.is_awaited()) {
            true => Err(Error::argument("train: a validation that does not block needs a run that does not")),
            false => Ok(()),
        }
    }

    /// The report, and with settings the state at the end.
    async fn run_in(
        mut self,
        reads: Reads,
        device: &B::Device,
        settings: Option<&BTreeMap<String, String>>,
    ) -> Result<(Report, Option<Checkpoint>)> {
        let lr = self.optimizer.lr();
        let result = self.run_through(reads, lr, device, settings).await;
        if let (Err(e), Some(group)) = (&result, &self.group) {
            group.fail(e);
        }
        self.optimizer.set_lr(lr);
        self.model.eval();
        result
    }
    async fn run_through(
        &mut self,
        reads: Reads,
        lr: f64,
        device: &B::Device,
        settings: Option<&BTreeMap<String, String>>,
    ) -> Result<(Report, Option<Checkpoint>)> {
        let run = self.go(reads, lr, device).await?;
        let checkpoint = match settings {
            // In an epoch, a step ended it; between epochs, it is done or was ended for good.
            Some(settings) => Some(self.checkpoint(reads, &run, run.at.batch == 0, settings, true).await?),
            None => None,
        };
        Ok((run.report, checkpoint))
    }

    async fn go(&mut self, reads: Reads, lr: f64, device: &B::Device) -> Result<Run<B>> {
        let batches = self.source.batches();
        if batches == 0 {
            return Err(Error::argument(
                "train: the source has no batch; more samples or smaller batches are needed",
            ));
        }
        if self.accumulate == 0 {
            return Err(Error::argument("train: a step of 0 batches has no gradient; accumulate 1 at least"));
        }
        self.one.half().map_or(Ok(()), check).map_err(|e| e.at("train"))?;
        let needs = [("early stopping", self.early.is_some()), ("a plateau", self.plateau.is_some())];
        if let Some((what, _)) = needs.iter().find(|n| n.1 && self.validation.is_none()) {
            return Err(Error::argument(format!("train: {what} needs a validation to look at")));
        }
        self.sharding = self.sharding()?;
        let steps = (batches.div_ceil(self.accumulate) as u64).saturating_mul(self.epochs as u64);
        let mut run =
            Run { at: Position::default(), base_lr: lr, sums: Sums::default(), report: Report::default() };
        let states = self.first_states()?;
        let finished = match self.resume.take() {
            None => {
                self.keep_share()?;
                false
            }
            Some(checkpoint) => self.restore(&checkpoint, &mut run, device)?,
        };
        self.agree(&run, &states)?;
        if finished {
            return Ok(run);
        }
        while run.at.epoch < self.epochs {
            self.model.train();
            let source = self.source;
            let (number, from) = (run.at.epoch as u64, run.at.batch);
            let mut epoch = match &self.sharding {
                None => source.epoch(number, from, device),
                Some(Sharding { runs, group, .. }) => {
                    source.epoch_of_shards(*runs, group.rank(), number, from, device)?
                }
            };
            while run.at.batch < batches {
                let told = self.step(reads, &mut run, &mut *epoch, steps, batches, device).await?;
                if told {
                    run.report.stopped = true;
                    return Ok(run);
                }
            }
            drop(epoch);
            if self.end_epoch(reads, &mut run).await? {
                run.report.stopped = true;
                break;
            }
        }
        Ok(run)
    }

    /// One step of the optimiser. Returns whether a callback ends the run.
    ///
    /// While the device works, the next batch is made in host memory. It is copied when no callback
    /// has ended the run: what is copied is computed with.
    async fn step(
        &mut self,
        reads: Reads,
        run: &mut Run<B>,
        epoch: &mut dyn Feed<S::Batch>,
        steps: u64,
        batches: usize,
        device: &B::Device,
    ) -> Result<bool> {
        let _span = profile::span("training step");
        let n = self.accumulate.min(batches - run.at.batch);
        if let Some(schedule) = &self.schedule {
            self.optimizer.set_lr(schedule.lr(run.base_lr, run.at.step));
        } else {
            self.optimizer.set_lr(run.base_lr);
        }
        let measured = self.measure(n, epoch, batches, device)?;
        if let Some(ema) = &mut self.ema {
            ema.update(self.model)?;
        }
        let is_last = run.at.batch + n == batches;
        if !is_last {
            let _span = profile::span("batch");
            epoch.gather();
        }
        let sums = try_run(|| {
            let mut sums = Sums::default();
            measured.iter().for_each(|m| sums.add(m));
            run.sums.merge(&sums);
            sums
        })?;
        let told = Step {
            epoch: run.at.epoch,
            step: run.at.step,
            steps,
            samples: measured.iter().map(|m| m.samples).sum(),
            lr: self.optimizer.lr(),
            sums: &sums,
        };
        let mut end = false;
        for c in &mut self.callbacks {
            end |= c.step(&told)?.is_break();
        }
        run.at.batch += n;
        run.at.step += 1;
        // The end of an epoch writes its own checkpoint.
        let is_due = self.checkpoints.as_ref().is_some_and(|c| c.is_due(run.at.step));
        let [end, writes] = self.any([end, is_due && !is_last && self.writes()])?;
        if writes {
            self.write(reads, run, false).await?;
        }
        if !(is_last || end) {
            epoch.send();
        }
        Ok(end)
    }

    /// Computes and applies the gradients of `n` batches, of all shards of this worker.
    fn measure(
        &mut self,
        n: usize,
        epoch: &mut dyn Feed<S::Batch>,
        batches: usize,
        device: &B::Device,
    ) -> Result<Vec<Measured<B>>> {
        let next = |epoch: &mut dyn Feed<S::Batch>| {
            let _span = profile::span("batch");
            epoch.next().ok_or_else(|| {
                Error::argument(format!("train: the source announced {batches} batches and gave fewer"))
            })?
        };
        if let Some(sharding) = &self.sharding {
            let mine = n * sharding.runs.of(sharding.group.rank()).len();
            self.one.run_shards(self.optimizer, n, sharding, device, &mut |i, f| {
                f(next(epoch)?)?;
                if i + 1 < mine {
                    epoch.gather();
                    epoch.send();
                }
                Ok(())
            })
        } else if self.one.is_captured() {
            let batches: Vec<S::Batch> = (0..n).map(|_| next(epoch)).collect::<Result<_>>()?;
            self.one.run(self.optimizer, &batches)
        } else {
            self.one.run_plain(self.optimizer, n, &mut |i, f| {
                f(&next(epoch)?)?;
                if i + 1 < n {
                    epoch.gather();
                    epoch.send();
                }
                Ok(())
            })
        }
    }

    /// Ends an epoch. Returns whether the run should end.
    async fn end_epoch(&mut self, reads: Reads, run: &mut Run<B>) -> Result<bool> {
        let train = run.sums.score(reads).await?;
        if !train.loss.is_finite() {
            return Err(Error::argument(format!(
                "train: the loss of epoch {} is {}; a smaller learning rate may help",
                run.at.epoch, train.loss
            )));
        }
        let validation = match &mut self.validation {
            Some(validation) => Some(validation.score(self.model).await?),
            None => None,
        };
        run.report.epochs.push(EpochReport { epoch: run.at.epoch, steps: run.at.step, train, validation });
        (run.at.epoch, run.at.batch, run.sums) = (run.at.epoch + 1, 0, Sums::default());
        let report = run.report.epochs.last().expect("it was pushed two lines ago");
        let mut end = false;
        if let Some(score) = &report.validation {
            if let Some(plateau) = &mut self.plateau {
                run.base_lr = plateau.step(score.loss, run.base_lr);
            }
            if let Some(early) = &mut self.early {
                let (best, stop) = early.see(score);
                end |= stop;
                if let Some(c) = self.checkpoints.as_ref().filter(|_| best && self.writes()) {
                    c.write_best(self.model)?;
                }
            }
        }
        for c in &mut self.callbacks {
            end |= c.epoch(report)?.is_break();
        }
        let [end, writes] = self.any([end, self.checkpoints.is_some() && self.writes()])?;
        if writes {
            self.write(reads, run, end).await?;
        }
        Ok(end)
    }
}

/// The state of a run.
pub(super) struct Run<B: Backend> {
    pub(super) at: Position,
    pub(super) base_lr: f64,
    pub(super) sums: Sums<B>,
    pub(super) report: Report,
}
