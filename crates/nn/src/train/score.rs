//! Scores of a model: sums over batches, kept on the device until they are read.

use super::Measured;
use elinvar_core::{Error, Result};
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
    /// Waits for the device.
    pub(super) fn score(&self) -> Result<Score> {
        let mean = |t: &Tensor<B>| -> Result<f64> { Ok(number(t)? / self.samples as f64) };
        let loss = self.sums.get(LOSS).map_or(Ok(f64::NAN), mean)?;
        let metrics = self
            .sums
            .iter()
            .filter(|(name, _)| *name != LOSS)
            .map(|(name, t)| Ok((name.clone(), mean(t)?)))
            .collect::<Result<_>>()?;
        Ok(Score { loss, metrics, samples: self.samples })
    }
}

/// A sum as it is added to others: storage floats hold neither many samples nor small parts of
/// a sum.
fn wide<B: Backend>(x: &Tensor<B>) -> Tensor<B> {
    let x = x.detach();
    x.to_dtype(x.dtype().compute())
}

/// The only element. Waits for the device.
pub(super) fn number<B: Backend>(t: &Tensor<B>) -> Result<f64> {
    match t.to_host()?.to_f64_vec()[..] {
        [v] => Ok(v),
        _ => {
            Err(Error::shape(format!("a loss or a metric has shape {}; it should be one number", t.shape())))
        }
    }
}
