//! Scores of a model: sums over batches, kept on the device until they are read.

use super::Measured;
use crate::reads::{Reader, Reads};
use elinvar_core::{Error, HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The score of a model on some samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Mean loss per sample.
    pub loss: f64,
    /// Means of metrics per sample, by name: `accuracy`, for example.
    pub metrics: BTreeMap<String, f64>,
    /// Number of samples; of tokens, for a language model.
    pub samples: u64,
}

impl Score {
    /// The fraction of samples that were classified correctly, if measured.
    pub fn accuracy(&self) -> Option<f64> {
        self.metrics.get("accuracy").copied()
    }
}

/// Sums over batches.
#[derive(Clone, Debug)]
pub(super) struct Sums<B: Backend> {
    /// By name, including `loss`. Each of shape [].
    pub(super) sums: BTreeMap<String, Tensor<B>>,
    pub(super) samples: u64,
}

impl<B: Backend> Default for Sums<B> {
    fn default() -> Self {
        Sums { sums: BTreeMap::new(), samples: 0 }
    }
}

/// The name of the loss among the sums.
pub(super) const LOSS: &str = "loss";

impl<B: Backend> Sums<B> {
    /// Adds a batch. Panics as tensors do.
    pub(super) fn add(&mut self, batch: &Measured<B>) {
        // The mean of no samples is NaN, and would stay in the sum.
        if batch.samples > 0 {
            self.put(LOSS, wide(&batch.loss) * batch.samples as f64);
        }
        self.samples += batch.samples as u64;
        for (name, sum) in &batch.metrics {
            self.put(name, wide(sum));
        }
    }
    /// Adds other sums. Panics as tensors do.
    pub(super) fn merge(&mut self, other: &Sums<B>) {
        self.samples += other.samples;
        for (name, sum) in &other.sums {
            self.put(name, sum.clone());
        }
    }
    fn put(&mut self, name: &str, value: Tensor<B>) {
        let sum = match self.sums.remove(name) {
            None => value,
            Some(sum) => sum + value,
        };
        self.sums.insert(name.to_owned(), sum);
    }
    /// The means.
    pub(super) async fn score(&self, reads: Reads) -> Result<Score> {
        reads.all(|read| self.score_by(read)).await
    }
    fn score_by(&self, read: &mut Reader<'_, B>) -> Result<Score> {
        let mut means = BTreeMap::new();
        for (name, t) in &self.sums {
            means.insert(name.clone(), number(&read(t.array())?)? / self.samples as f64);
        }
        let loss = means.remove(LOSS).unwrap_or(f64::NAN);
        Ok(Score { loss, metrics: means, samples: self.samples })
    }
}

/// A sum as it is added to others: storage floats hold neither many samples nor small parts of
/// a sum.
fn wide<B: Backend>(x: &Tensor<B>) -> Tensor<B> {
    let x = x.detach();
    x.to_dtype(x.dtype().compute())
}

/// The only element.
pub(super) fn number(t: &HostTensor) -> Result<f64> {
    match t.to_f64_vec()[..] {
        [v] => Ok(v),
        _ => {
            Err(Error::shape(format!("a loss or a metric has shape {}; it should be one number", t.shape())))
        }
    }
}
