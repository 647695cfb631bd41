//! A worker's share of the optimiser's states, where each worker has one: which it is, and how all
//! of them get into a checkpoint and out of it.

use super::shards::Sharding;
use super::trainer::Trainer;
use super::{Checkpoint, Source};
use crate::optim::OptimizerState;
use crate::{Module, Param, StateDict};
use elinvar_core::{Error, Result};
use elinvar_distributed::{Group, Shares};
use elinvar_io as io;
use elinvar_ops::Backend;
use std::collections::BTreeMap;

/// An optimiser's state as bytes.
fn to_bytes(state: &OptimizerState) -> Result<Vec<u8>> {
    let (tensors, groups) = state.to_tensors();
    let mut bytes = vec![];
    io::write_safetensors(&mut bytes, &tensors, &BTreeMap::from([(GROUPS.to_owned(), groups)]))?;
    Ok(bytes)
}

fn from_bytes(bytes: &[u8]) -> Result<OptimizerState> {
    let file = io::read_safetensors(&mut &bytes[..], bytes.len() as u64)?;
    let tensors: StateDict = file.tensors.into_iter().collect();
    OptimizerState::from_tensors(&tensors, file.metadata.get(GROUPS).map(String::as_str))
}

/// The key of an optimiser's groups beside its states.
const GROUPS: &str = "groups";

impl<B: Backend, M: Module<B>, S: Source<B>> Trainer<'_, B, M, S> {
    /// The shares of the parameters, if each worker has one.
    pub(super) fn shares(&self, group: &Group) -> Option<Shares> {
        if !self.zero1 || group.size() == 1 {
            return None;
        }
        let sizes: Vec<usize> = self.model.parameters().iter().map(|p| p.get().numel()).collect();
        Some(Shares::balanced(&sizes, group.size()))
    }
    /// Has this worker a share of the optimiser's states only?
    pub(super) fn has_share(&self) -> bool {
        self.sharding.as_ref().is_some_and(|s| s.shares.is_some())
    }
    /// The parameters whose states this worker has.
    pub(super) fn own_parameters(&self) -> Vec<(String, &Param<B>)> {
        match &self.sharding {
            Some(sharding) => sharding.own_parameters(self.model),
            None => self.model.named_parameters(),
        }
    }
    /// Drops the states of other workers' parameters, which the optimiser may have of a run before.
    pub(super) fn keep_share(&mut self) -> Result<()> {
        if !self.has_share() {
            return Ok(());
        }
        let own = self.optimizer.state_of(&self.own_parameters(), &mut |x| x.to_host())?;
        let only_states = OptimizerState { param_groups: vec![], ..own };
        self.optimizer.load_state_dict(self.model, &only_states)
    }
    /// A checkpoint with the optimiser's state of all workers, for worker 0, and for all if asked
    /// for; from one with that of this worker.
    pub(super) fn with_all_states(&self, mut checkpoint: Checkpoint, for_all: bool) -> Result<Checkpoint> {
        let Some(Sharding { group, shares: Some(_), .. }) = &self.sharding else { return Ok(checkpoint) };
        if let Some(parts) = group.gather_bytes(to_bytes(checkpoint.optimizer())?, 0)? {
            let parts = parts.iter().map(|bytes| from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
            checkpoint.set_optimizer(OptimizerState::merged(parts));
        }
        if !for_all {
            return Ok(checkpoint);
        }
        let shared = Checkpoint::shared((group.rank() == 0).then_some(checkpoint), group)?;
        shared.ok_or_else(|| Error::argument("train: worker 0 has given no checkpoint"))
    }
}
