//! A run that several workers share: what must be the same for all, and what one of them does.

use super::Source;
use super::shards::Sharding;
use super::trainer::{Run, Trainer};
use crate::Module;
use elinvar_core::{Error, HostData, HostTensor, Result};
use elinvar_distributed::{Group, Runs};
use elinvar_io::weights_hash;
use elinvar_ops::Backend;
use elinvar_ops::array::Array;

impl<B: Backend, M: Module<B>, S: Source<B>> Trainer<'_, B, M, S> {
    /// Parts the optimiser's states among the workers of the group (ZeRO-1, as PyTorch's
    /// `ZeroRedundancyOptimizer`): each updates a share of the parameters, whole ones, and has the
    /// states of those alone. The weights have the same bits and checkpoints are the same, so a run
    /// goes on with or without it. Afterwards the optimiser has this worker's states only.
    #[must_use]
    pub fn zero1(mut self) -> Self {
        self.zero1 = true;
        self
    }
    /// Bytes of a bucket of gradients, 25 MiB by default: all that the workers of a group send each
    /// other at once, while the backward pass of the last shard goes on. The first bucket has 1 MiB
    /// at most. With 0, gradients are sent when the pass is done. The weights have the same bits.
    #[must_use]
    pub fn bucket_bytes(mut self, bytes: usize) -> Self {
        self.bucket = bytes;
        self
    }

    /// How steps are cut, if they are.
    pub(super) fn sharding(&self) -> Result<Option<Sharding>> {
        let group = self.group.clone().unwrap_or_else(Group::alone);
        let runs = Runs::new(self.shards, group.size())?;
        if self.shards == 1 {
            return Ok(None);
        }
        if self.one.is_captured() {
            return Err(Error::unsupported("train: a captured step is not cut into gradient shards"));
        }
        let shares = self.shares(&group);
        Ok(Some(Sharding { runs, group, shares, bucket: self.bucket }))
    }

    /// The hash of the optimiser's states with which the run begins.
    pub(super) fn first_states(&self) -> Result<String> {
        if self.sharding.as_ref().is_none_or(|s| s.group.size() == 1) {
            return Ok(String::new());
        }
        let own;
        let states = match &self.resume {
            Some(checkpoint) => checkpoint.optimizer(),
            // Of shares, which a run before has left, each worker has its own.
            None if self.has_share() => return Ok(String::new()),
            None => {
                own = self.optimizer.state_dict(self.model)?;
                &own
            }
        };
        Ok(weights_hash(&states.to_tensors().0))
    }

    /// Workers that differ would end with different weights. `states` is the hash of the
    /// optimiser's.
    pub(super) fn agree(&self, run: &Run<B>, states: &str) -> Result<()> {
        let Some(Sharding { group, .. }) = self.sharding.as_ref().filter(|s| s.group.size() > 1) else {
            return Ok(());
        };
        let settings = format!(
            "{} {} {} {} {} {} {} {:?} {:?} {} {} {} {}",
            self.shards,
            self.zero1,
            self.bucket,
            group.is_for_any_thread(),
            self.epochs,
            self.accumulate,
            self.one.settings(),
            run.at,
            run.base_lr.to_bits(),
            self.schedule.is_some(),
            self.plateau.is_some(),
            self.early.is_some(),
            self.ema.is_some(),
        );
        group.agree("set of settings", settings.as_bytes())?;
        group.agree("set of data", self.source.fingerprint()?.as_bytes())?;
        let weights = self.model.state_dict()?;
        let of = |(name, x): (&String, &HostTensor)| format!("{name} {} {}\n", x.dtype(), x.shape());
        let across: Vec<bool> = self.model.leaves().across.iter().map(|a| a.is_on()).collect();
        let frozen: Vec<bool> = self.model.parameters().iter().map(|p| p.is_frozen()).collect();
        let model = format!("{}{across:?}{frozen:?}", weights.iter().map(of).collect::<String>());
        group.agree("model", model.as_bytes())?;
        group.agree("weights", weights_hash(&weights).as_bytes())?;
        // The groups are those of all parameters; the states are not read.
        let zero = |x: &Array<B>| HostData::full(x.dtype(), x.shape().numel(), 0.into());
        let read = &mut |x: &Array<B>| HostTensor::new(x.shape().clone(), zero(x)?);
        let (_, groups) = self.optimizer.state_of(&self.model.named_parameters(), read)?.to_tensors();
        group.agree("optimiser", format!("{states} {groups}").as_bytes())
    }

    /// Is each so on any worker?
    pub(super) fn any<const N: usize>(&self, here: [bool; N]) -> Result<[bool; N]> {
        match &self.sharding {
            Some(Sharding { group, .. }) if group.size() > 1 => {
                let all = group.all_reduce_slice(&here.map(i64::from))?;
                Ok(std::array::from_fn(|i| all[i] > 0))
            }
            _ => Ok(here),
        }
    }

    /// Does this worker write?
    pub(super) fn writes(&self) -> bool {
        self.sharding.as_ref().is_none_or(Sharding::writes)
    }
}
