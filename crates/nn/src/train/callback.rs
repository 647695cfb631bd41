//! Callbacks and reports of a training run.

use super::score::{LOSS, number};
use super::{Checkpoint, Score};
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Is called at a run's steps, epochs and checkpoints, and may end it.
pub trait Callback<B: Backend> {
    /// Called after a step.
    ///
    /// # Errors
    /// Any error ends the run.
    fn step(&mut self, _step: &Step<'_, B>) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
    /// Called after an epoch.
    ///
    /// # Errors
    /// Any error ends the run.
    fn epoch(&mut self, _report: &EpochReport) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
    /// Called when the run resumes from a checkpoint.
    ///
    /// # Errors
    /// Any error ends the run.
    fn resumed(&mut self, _from: &Checkpoint) -> Result<()> {
        Ok(())
    }
}

/// A step of a training run.
#[derive(Debug)]
pub struct Step<'a, B: Backend> {
    /// The epoch, from 0.
    pub epoch: usize,
    /// The step number, from 0.
    pub step: u64,
    /// Number of steps in the whole run.
    pub steps: u64,
    /// Samples in the step's batches.
    pub samples: usize,
    /// The learning rate of this step.
    pub lr: f64,
    pub(super) sums: &'a super::score::Sums<B>,
}

impl<B: Backend> Step<'_, B> {
    /// The mean loss of the step's samples, before the step. Synchronises with the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn loss(&self) -> Result<f64> {
        self.metric(LOSS).map(|m| m.unwrap_or(f64::NAN))
    }
    /// The same, not read yet: nothing waits for the device.
    pub fn loss_later(&self) -> LossLater<B> {
        LossLater { sum: self.sums.sums.get(LOSS).cloned(), samples: self.sums.samples }
    }
    /// The mean of a metric over the step's samples, if it was measured (see
    /// [`super::Measured::metrics`]). Synchronises with the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn metric(&self, name: &str) -> Result<Option<f64>> {
        let mean = |t: &Tensor<B>| Ok(number(&t.to_host()?)? / self.sums.samples as f64);
        self.sums.sums.get(name).map(mean).transpose()
    }
}

/// The mean loss of a step's samples, on its device.
#[derive(Clone, Debug)]
pub struct LossLater<B: Backend> {
    sum: Option<Tensor<B>>,
    samples: u64,
}

impl<B: Backend> LossLater<B> {
    /// Reads it, without blocking.
    ///
    /// # Errors
    /// What the device reports.
    pub async fn read(&self) -> Result<f64> {
        match &self.sum {
            Some(sum) => Ok(number(&sum.to_host_async().await?)? / self.samples as f64),
            None => Ok(f64::NAN),
        }
    }
}

/// An epoch of a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// The epoch, from 0.
    pub epoch: usize,
    /// Number of steps of the run at its end.
    pub steps: u64,
    /// The score over the samples of the epoch, each before its step.
    pub train: Score,
    /// The validation score after the epoch.
    pub validation: Option<Score>,
}

/// The report of a training run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The finished epochs, including those before a resumption.
    pub epochs: Vec<EpochReport>,
    /// Did a callback or early stopping end the run before its last epoch?
    pub stopped: bool,
    /// The step from which it was resumed, if any.
    pub resumed: Option<u64>,
}
