//! Checkpoints of a run: written while it goes on, and what a run goes on from.

use super::checkpoint::{Restored, State};
use super::shards::Sharding;
use super::trainer::{Run, Trainer};
use super::{Checkpoint, Source};
use crate::Module;
use crate::optim::schedule::PlateauState;
use crate::optim::{GradScaler, ScalerState};
use crate::reads::{Reader, Reads};
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
        let own = match &self.sharding {
            Some(s) => s.own_parameters(self.model),
            None => self.model.named_parameters(),
        };
        let r: Restored<B> = from.restore(self.model, self.optimizer, ema, watches, &own, device)?;
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

    /// Writes a checkpoint, if this worker does. All are called if worker 0 writes one.
    pub(super) async fn write(&mut self, reads: Reads, run: &Run<B>, finished: bool) -> Result<()> {
        let writes = self.checkpoints.as_ref().filter(|_| self.writes());
        if writes.is_none() && !self.has_share() {
            return Ok(());
        }
        let settings = writes.map(|c| c.all_settings().clone()).unwrap_or_default();
        let checkpoint = self.checkpoint(reads, run, finished, &settings, false).await?;
        match self.checkpoints.as_mut().filter(|_| self.sharding.as_ref().is_none_or(Sharding::writes)) {
            Some(c) => c.write(&checkpoint),
            None => Ok(()),
        }
    }

    /// The state of the run: for worker 0, or for all.
    pub(super) async fn checkpoint(
        &self,
        reads: Reads,
        run: &Run<B>,
        finished: bool,
        settings: &BTreeMap<String, String>,
        for_all: bool,
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
        let own = self.own_parameters();
        let here = |read: &mut Reader<'_, B>| {
            let optimizer = self.optimizer.state_of(&own, read)?;
            Checkpoint::of(self.model, optimizer, &state, settings, read)
        };
        self.with_all_states(reads.all(here).await?, for_all)
    }
}
