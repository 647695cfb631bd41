//! Checkpoints: the complete state of a run in one file, so that it can be resumed bit for bit.
//!
//! One file, because a run that is killed between writing two would leave an inconsistent state. It
//! replaces the previous one atomically (written to a temporary file, synced, renamed), so there is
//! always a complete one. Numbers that affect bits (weights, states, sums) are stored as tensors;
//! the rest as JSON in the metadata.
//!
//! How it can be wrong: state that a step reads and that is not saved. [`Checkpoint`] lists the
//! saved state.

use super::score::Sums;
use super::{EarlyStopping, EpochReport};
use crate::ema::Ema;
use crate::module::{StateDict, Strict, save};
use crate::optim::{Optimizer, OptimizerState};
use crate::reads::Reader;
use crate::{Module, Param};
use elinvar_core::clock::Instant;
use elinvar_core::philox::Stream;
use elinvar_core::{Error, HostTensor, Result};
use elinvar_distributed::Group;
use elinvar_io as io;
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the file's own layout.
const FORMAT: u32 = 1;
/// The key in the metadata.
const KEY: &str = "elinvar.checkpoint";

/// Prefixes of tensor names, by their owner.
const MODEL: &str = "model.";
const OPTIMIZER: &str = "optimizer.";
const EMA: &str = "ema.";
const SUMS: &str = "sums.";

/// The position of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: usize,
    /// The next batch of the epoch, from 0.
    pub batch: usize,
    /// Steps made so far.
    pub step: u64,
}

/// The state of a run.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    model: StateDict,
    optimizer: OptimizerState,
    ema: Option<StateDict>,
    sums: StateDict,
    record: Record,
}

/// The part of the state that is not tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    position: Position,
    /// The learning rate from which the schedule starts.
    base_lr: f64,
    finished: bool,
    history: Vec<EpochReport>,
    /// Number of samples in the sums of the current epoch.
    samples: u64,
    /// The states of random number generators, by name: seed and stream.
    random: BTreeMap<String, (u64, u64)>,
    early: Option<EarlyStopping>,
    /// The learning rate of a plateau schedule, and its state.
    plateau: Option<serde_json::Value>,
    /// The state of a scaler of gradients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scaler: Option<serde_json::Value>,
    /// The optimiser's groups.
    groups: String,
    /// The caller's settings.
    settings: BTreeMap<String, String>,
    /// The gradient shards of a step.
    #[serde(default = "one_shard", skip_serializing_if = "is_one_shard")]
    shards: usize,
}

/// What checkpoints tell that say nothing of it.
fn one_shard() -> usize {
    1
}

fn is_one_shard(shards: &usize) -> bool {
    *shards == 1
}

/// The state of a trainer that is saved and restored.
pub(super) struct State<'s, B: Backend> {
    pub position: Position,
    pub base_lr: f64,
    pub finished: bool,
    pub history: &'s [EpochReport],
    pub sums: &'s Sums<B>,
    pub early: Option<&'s EarlyStopping>,
    pub plateau: Option<serde_json::Value>,
    pub scaler: Option<serde_json::Value>,
    pub ema: Option<&'s Ema<B>>,
    pub shards: usize,
}

impl Checkpoint {
    /// Reads a checkpoint.
    ///
    /// # Errors
    /// `Io` if it cannot be read; `Format` if it is damaged, or not a checkpoint; `OutOfMemory`.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref();
        Self::read(io::load_safetensors(path)?).map_err(|e| e.at(path.display()))
    }
    fn read(file: io::Safetensors) -> Result<Checkpoint> {
        let Some(text) = file.metadata.get(KEY) else {
            return Err(Error::format("this safetensors file is no checkpoint of a training run"));
        };
        let record: Record = serde_json::from_str(text)
            .map_err(|e| Error::format(format!("the checkpoint's record is damaged: {e}")))?;
        if record.format != FORMAT {
            return Err(Error::format(format!(
                "the checkpoint has layout {}, and this program knows {FORMAT}",
                record.format
            )));
        }
        let mut parts: BTreeMap<&str, StateDict> = BTreeMap::new();
        for (name, tensor) in file.tensors {
            let part = [MODEL, OPTIMIZER, EMA, SUMS].into_iter().find(|p| name.starts_with(p));
            let Some(part) = part else {
                return Err(Error::format(format!(
                    "the checkpoint holds a tensor \"{name}\" that belongs to nothing"
                )));
            };
            parts.entry(part).or_default().insert(name[part.len()..].to_owned(), tensor);
        }
        let mut take = |part| parts.remove(part);
        let optimizer =
            OptimizerState::from_tensors(&take(OPTIMIZER).unwrap_or_default(), Some(&record.groups))?;
        Ok(Checkpoint {
            model: take(MODEL).unwrap_or_default(),
            optimizer,
            ema: take(EMA),
            sums: take(SUMS).unwrap_or_default(),
            record,
        })
    }
    /// Reads a checkpoint from the bytes of its file.
    ///
    /// # Errors
    /// `Format` if it is damaged, or not a checkpoint; `OutOfMemory`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Checkpoint> {
        Self::read(io::read_safetensors(&mut &bytes[..], bytes.len() as u64)?)
    }
    /// Writes the checkpoint; an older file is replaced only when this one is complete.
    ///
    /// # Errors
    /// `Io` with the path; the older file is then untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (tensors, metadata) = self.parts()?;
        io::save_safetensors(path, &tensors, &metadata)
    }
    /// The bytes of its file: for a place that has no file system.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (tensors, metadata) = self.parts()?;
        let mut bytes = Vec::new();
        io::write_safetensors(&mut bytes, &tensors, &metadata)?;
        Ok(bytes)
    }
    /// What the file holds.
    fn parts(&self) -> Result<(StateDict, BTreeMap<String, String>)> {
        let (optimizer, groups) = self.optimizer.to_tensors();
        let mut tensors = BTreeMap::new();
        let mut put = |prefix: &str, part: &BTreeMap<String, HostTensor>| {
            tensors.extend(part.iter().map(|(name, t)| (format!("{prefix}{name}"), t.clone())));
        };
        put(MODEL, &self.model);
        put(OPTIMIZER, &optimizer);
        put(SUMS, &self.sums);
        self.ema.iter().for_each(|e| put(EMA, e));
        let record = Record { groups, ..self.record.clone() };
        let text = serde_json::to_string(&record)
            .map_err(|e| Error::format(format!("the checkpoint's record is not JSON: {e}")))?;
        Ok((tensors, BTreeMap::from([(KEY.to_owned(), text)])))
    }

    /// The position of the run.
    pub fn position(&self) -> Position {
        self.record.position
    }
    /// The finished epochs.
    pub fn history(&self) -> &[EpochReport] {
        &self.record.history
    }
    /// Is the run finished?
    pub fn is_finished(&self) -> bool {
        self.record.finished
    }
    /// The caller's settings, see [`Checkpoints::settings`].
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.record.settings
    }
    /// The gradient shards of a step: a run goes on with as many, on any number of workers.
    pub fn shards(&self) -> usize {
        self.record.shards
    }
    /// The checkpoint of worker 0, for all workers, whether they can read its file or not.
    ///
    /// # Errors
    /// Those of the group; `OutOfMemory`.
    pub fn shared(of_worker_0: Option<Checkpoint>, group: &Group) -> Result<Option<Checkpoint>> {
        if group.size() == 1 {
            return Ok(of_worker_0);
        }
        let mut bytes = vec![];
        if let (0, Some(checkpoint)) = (group.rank(), &of_worker_0) {
            bytes = checkpoint.to_bytes()?;
        }
        let bytes = group.broadcast_bytes(bytes, 0)?;
        match group.rank() {
            0 => Ok(of_worker_0),
            _ if bytes.is_empty() => Ok(None),
            _ => Checkpoint::from_bytes(&bytes).map(Some),
        }
    }
    /// The state of early stopping.
    pub(super) fn early(&self) -> Option<&EarlyStopping> {
        self.record.early.as_ref()
    }
    /// The state of a plateau schedule.
    pub(super) fn plateau(&self) -> Option<&serde_json::Value> {
        self.record.plateau.as_ref()
    }
    /// The state of a scaler of gradients.
    pub(super) fn scaler(&self) -> Option<&serde_json::Value> {
        self.record.scaler.as_ref()
    }
    /// The state of the optimiser.
    pub(super) fn optimizer(&self) -> &OptimizerState {
        &self.optimizer
    }
    pub(super) fn set_optimizer(&mut self, state: OptimizerState) {
        self.optimizer = state;
    }
    /// The weights and buffers.
    pub fn model(&self) -> &StateDict {
        &self.model
    }

    /// The current state of a run.
    pub(super) fn of<B: Backend>(
        model: &dyn Module<B>,
        optimizer: OptimizerState,
        state: &State<'_, B>,
        settings: &BTreeMap<String, String>,
        read: &mut Reader<'_, B>,
    ) -> Result<Checkpoint> {
        let leaves = model.leaves();
        let random = leaves.randoms.iter().map(|(name, r)| {
            let Stream { seed, stream } = r.state();
            (name.clone(), (seed, stream))
        });
        Ok(Checkpoint {
            model: save(&leaves, read)?,
            optimizer,
            ema: state.ema.map(|ema| ema.state_by(read)).transpose()?,
            sums: state
                .sums
                .sums
                .iter()
                .map(|(n, t)| Ok((n.clone(), read(t.array())?)))
                .collect::<Result<_>>()?,
            record: Record {
                format: FORMAT,
                position: state.position,
                base_lr: state.base_lr,
                finished: state.finished,
                history: state.history.to_vec(),
                samples: state.sums.samples,
                random: random.collect(),
                early: state.early.cloned(),
                plateau: state.plateau.clone(),
                scaler: state.scaler.clone(),
                groups: String::new(),
                settings: settings.clone(),
                shards: state.shards,
            },
        })
    }
    /// Restores the state of a model, an optimiser and an average of weights, and returns the
    /// trainer's own. The optimiser gets the states of its `own` parameters. Everything is checked,
    /// and uploaded, before the first of them changes: after an error they are unchanged. `early`
    /// and `plateau` say whether the run has early stopping and a plateau schedule.
    pub(super) fn restore<B: Backend>(
        &self,
        model: &dyn Module<B>,
        optimizer: &mut dyn Optimizer<B>,
        ema: Option<&mut Ema<B>>,
        (early, plateau): (bool, bool),
        own: &[(String, &Param<B>)],
        device: &B::Device,
    ) -> Result<Restored<B>> {
        let leaves = model.leaves();
        let sources: BTreeSet<&String> = leaves.randoms.iter().map(|(name, _)| name).collect();
        if sources.into_iter().ne(self.record.random.keys()) {
            return Err(Error::argument(
                "resume: the checkpoint's sources of random numbers are not those of this model",
            ));
        }
        let ema = match (&self.ema, ema) {
            (Some(state), Some(ema)) => Some((ema.loaded(model, state)?, ema)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(Error::argument(
                    "resume: the checkpoint has averaged weights, and this run averages none",
                ));
            }
            (None, Some(_)) => {
                return Err(Error::argument(
                    "resume: this run averages weights, and the checkpoint has no averaged ones",
                ));
            }
        };
        if self.early().is_some() != early || self.plateau().is_some() != plateau {
            return Err(Error::argument(
                "resume: the checkpoint's run and this one differ in early stopping or in reducing the rate on a plateau",
            ));
        }
        let sums = self
            .sums
            .iter()
            .map(|(n, t)| Ok((n.clone(), Tensor::from_host(t.clone(), device)?)))
            .collect::<Result<_>>()?;
        let parameters = model.named_parameters();
        let of_own;
        let states = match own.len() == parameters.len() {
            true => &self.optimizer,
            false => {
                let names = own.iter().map(|(name, _)| name.as_str()).collect();
                of_own = self.optimizer.part(&names, 0..self.optimizer.param_groups.len());
                &of_own
            }
        };
        let commit = optimizer.prepare(&parameters, states)?;
        // The first change, and the last call that can fail.
        model.load_state_dict(&self.model, Strict::Yes)?;
        commit();
        if let Some((loaded, ema)) = ema {
            *ema = loaded;
        }
        for (name, r) in &leaves.randoms {
            let (seed, stream) = self.record.random[name];
            r.set_state(Stream { seed, stream });
        }
        Ok(Restored {
            position: self.record.position,
            base_lr: self.record.base_lr,
            finished: self.record.finished,
            history: self.record.history.clone(),
            sums: Sums { sums, samples: self.record.samples },
        })
    }
}

/// The restored state of a trainer.
pub(super) struct Restored<B: Backend> {
    pub position: Position,
    pub base_lr: f64,
    pub finished: bool,
    pub history: Vec<EpochReport>,
    pub sums: Sums<B>,
}

/// When and where checkpoints are written: after each epoch, and optionally in between.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    path: PathBuf,
    best: Option<PathBuf>,
    steps: Option<u64>,
    every: Option<Duration>,
    settings: BTreeMap<String, String>,
    last: Instant,
}

impl Checkpoints {
    /// After each epoch, into this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Checkpoints {
            path: path.into(),
            best: None,
            steps: None,
            every: None,
            settings: BTreeMap::new(),
            last: Instant::now(),
        }
    }
    /// Also every `n` steps.
    #[must_use]
    pub fn every_steps(mut self, n: u64) -> Self {
        self.steps = Some(n.max(1));
        self
    }
    /// Also when this time has passed since the last one.
    #[must_use]
    pub fn every(mut self, time: Duration) -> Self {
        self.every = Some(time);
        self
    }
    /// Saves the weights of the epoch with the best validation score to this safetensors file.
    /// Needs early stopping, which defines the best score.
    #[must_use]
    pub fn best(mut self, path: impl Into<PathBuf>) -> Self {
        self.best = Some(path.into());
        self
    }
    /// Settings to save for a later run: the seed, for example, to reject another one.
    #[must_use]
    pub fn settings(mut self, settings: BTreeMap<String, String>) -> Self {
        self.settings = settings;
        self
    }
    /// Is one due after this step?
    pub(super) fn is_due(&self, step: u64) -> bool {
        self.steps.is_some_and(|n| step.is_multiple_of(n))
            || self.every.is_some_and(|t| self.last.elapsed() >= t)
    }
    pub(super) fn all_settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }
    pub(super) fn write(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        checkpoint.save(&self.path)?;
        self.last = Instant::now();
        Ok(())
    }
    pub(super) fn write_best<B: Backend>(&self, model: &dyn Module<B>) -> Result<()> {
        match &self.best {
            Some(path) => io::save_safetensors(path, &model.state_dict()?, &self.settings),
            None => Ok(()),
        }
    }
}
