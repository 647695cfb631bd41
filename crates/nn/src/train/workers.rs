//! A run that several workers share: what must be the same for all, and what one of them does.

use super::Source;
use super::shards::Sharding;
use super::trainer::{Run, Trainer};
use crate::Module;
use elinvar_core::{Error, HostTensor, Result};
use elinvar_distributed::{Group, Runs};
use elinvar_io::weights_hash;
use elinvar_ops::Backend;

impl<B: Backend, M: Module<B>, S: Source<B>> Trainer<'_, B, M, S> {
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
        Ok(Some(Sharding { runs, group }))
    }

    /// Workers that differ would end with different weights.
    pub(super) fn agree(&self, run: &Run<B>) -> Result<()> {
        let Some(Sharding { group, .. }) = self.sharding.as_ref().filter(|s| s.group.size() > 1) else {
            return Ok(());
        };
        let settings = format!(
            "{} {} {} {} {:?} {:?} {} {} {} {}",
            self.shards,
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
        group.agree("model", weights.iter().map(of).collect::<String>().as_bytes())?;
        group.agree("weights", weights_hash(&weights).as_bytes())?;
        let (states, groups) = self.optimizer.state_dict(self.model)?.to_tensors();
        group.agree("optimiser", format!("{} {groups}", weights_hash(&states)).as_bytes())
    }

    /// Is it so on any worker?
    pub(super) fn any(&self, here: bool) -> Result<bool> {
        match &self.sharding {
            Some(Sharding { group, .. }) if group.size() > 1 => {
                Ok(group.all_reduce_slice(&[i64::from(here)])?[0] > 0)
            }
            _ => Ok(here),
        }
    }

    /// Does this worker write?
    pub(super) fn writes(&self) -> bool {
        self.sharding.as_ref().is_none_or(|s| s.group.rank() == 0)
    }
}
