//! Checkpoints of a run: written while it goes on, and what a run goes on from.

use super::checkpoint::{Restored, State};
use super::trainer::{Run, Trainer};
use super::{Checkpoint, Source};
use crate::Module;
use crate::optim::schedule::PlateauState;
use crate::optim::{GradScaler, ScalerState};
use crate::reads::Reads;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use std::collections::BTreeMap;

impl<B: Backend, M: Module<B>, S: Source<B>> Trainer<'_, B, M, S> {
    /// Restores the state of a checkpoint. Returns whether the run was finished.
    pub(super) fn restore(
        &mut self,
        from: &Checkpoint,
        run: &mut Run<B>,
        device: &B::Device,
    ) -> Result<bool> {
        let state = from.plateau().map(PlateauState::from_json).transpose()?;
        let scaling = from.scaler().map(ScalerState::from_json).transpose().map_err(|e| e.at("resume"))?;
        if scaling.is_some() != self.one.scaler.is_some() {
            return Err(Error::argument(
                "resume: the checkpoint's run and this one differ in scaling gradients, which f16 does",
            ));
        }
        if from.shards() != self.shards {
            return Err(Error::argument(format!(
                "resume: the checkpoint's run has {} gradient shards, and this one {}",
                from.shards(),
                self.shards
            )));
        }
        let watches = (self.early.is_some(), self.plateau.is_some());
        let ema = self.ema.as_deref_mut();
        let r: Restored<B> = from.restore(self.model, self.optimizer, ema, watches, device)?;
        self.early = from.early().cloned();
        if let (Some(scaler), Some(state)) = (self.one.scaler(), scaling) {
            scaler.load_state(state)?;
        }
        if let (Some(plateau), Some(state)) = (&mut self.plateau, state) {
            plateau.set_state(state);
        }
        run.report.resumed = Some(r.position.step);
        (run.at, run.base_lr, run.sums, run.report.epochs) = (r.position, r.base_lr, r.sums, r.history);
        if r.finished {
            run.report.stopped = run.at.epoch < self.epochs;
        }
        for c in &mut self.callbacks {
            c.resumed(from)?;
        }
        Ok(r.finished)
    }

    /// Writes a checkpoint, if this worker does.
    pub(super) async fn write(&mut self, reads: Reads, run: &Run<B>, finished: bool) -> Result<()> {
        let Some(checkpoints) = self.checkpoints.as_ref().filter(|_| self.writes()) else { return Ok(()) };
        let checkpoint = self.checkpoint(reads, run, finished, checkpoints.all_settings()).await?;
        self.checkpoints.as_mut().map_or(Ok(()), |c| c.write(&checkpoint))
    }

    /// The state of the run.
    pub(super) async fn checkpoint(
        &self,
        reads: Reads,
        run: &Run<B>,
        finished: bool,
        settings: &BTreeMap<String, String>,
    ) -> Result<Checkpoint> {
        let state = State {
            position: run.at,
            base_lr: run.base_lr,
            finished,
            history: &run.report.epochs,
            sums: &run.sums,
            early: self.early.as_ref(),
            plateau: self.plateau.as_ref().map(|p| p.state().to_json()),
            scaler: self.one.scaler.as_ref().map(GradScaler::state).transpose()?.map(|s| s.to_json()),
            ema: self.ema.as_deref(),
            shards: self.shards,
        };
        reads.all(|read| Checkpoint::of(self.model, self.optimizer, &state, settings, read)).await
    }
}
