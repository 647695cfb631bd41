//! Training objectives: the loss of a batch, and metrics.

use crate::Layer;
use crate::loader::Batch;
use crate::loss::CrossEntropy;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// The loss and metrics of a batch.
#[derive(Clone, Debug)]
pub struct Measured<B: Backend> {
    /// The mean loss per sample, of shape [], which is differentiated.
    pub loss: Tensor<B>,
    /// The number of samples (tokens, ...) of the mean.
    pub samples: usize,
    /// Sums over these samples, of shape [], by name.
    pub metrics: Vec<(&'static str, Tensor<B>)>,
}

/// Computes the loss of a model on a batch. Implemented for closures
/// `|model, batch| Measured { .. }`.
pub trait Objective<B: Backend, M: ?Sized, Batch>: Sync {
    /// The batch's loss. May panic as tensors do; the trainer turns that into an error.
    ///
    /// # Errors
    /// Those of the model.
    fn measure(&self, model: &M, batch: &Batch) -> Result<Measured<B>>;
}

impl<B: Backend, M: ?Sized, Batch, F: Fn(&M, &Batch) -> Result<Measured<B>> + Sync> Objective<B, M, Batch>
    for F
{
    fn measure(&self, model: &M, batch: &Batch) -> Result<Measured<B>> {
        self(model, batch)
    }
}

/// Cross entropy of logits [n, classes] against classes y: \[n\] of i64, with the accuracy.
#[derive(Clone, Debug)]
pub struct Classification<B: Backend> {
    criterion: CrossEntropy<B>,
}

impl<B: Backend> Classification<B> {
    /// Plain cross entropy.
    pub fn new() -> Self {
        Self::with(CrossEntropy::new())
    }
    /// Cross entropy with settings. Its reduction should be the mean.
    pub fn with(criterion: CrossEntropy<B>) -> Self {
        Classification { criterion }
    }
    /// Label smoothing: the weight of a uniform distribution in the targets.
    #[must_use]
    pub fn label_smoothing(self, part: f64) -> Self {
        Classification { criterion: self.criterion.label_smoothing(part) }
    }
}

impl<B: Backend> Default for Classification<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Backend, M: Layer<B> + ?Sized> Objective<B, M, Batch<B>> for Classification<B> {
    fn measure(&self, model: &M, batch: &Batch<B>) -> Result<Measured<B>> {
        let logits = model.forward(&batch.x);
        let loss = self.criterion.of(&logits, &batch.y);
        let right = logits.detach().argmax(Some(-1), false).eq(&batch.y).sum();
        Ok(Measured { loss, samples: batch.x.size(0), metrics: vec![("accuracy", right)] })
    }
}

/// Cross entropy of the next token: logits [n, t, vocabulary] of x: [n, t] against y: [n, t], both
/// of i64. A sample is a token, so that the loss is in nats per token.
#[derive(Clone, Copy, Debug, Default)]
pub struct NextToken;

impl<B: Backend, M: Layer<B> + ?Sized> Objective<B, M, Batch<B>> for NextToken {
    fn measure(&self, model: &M, batch: &Batch<B>) -> Result<Measured<B>> {
        let logits = model.forward(&batch.x).flatten(0, 1);
        let targets = batch.y.flatten(0, 1);
        let loss = CrossEntropy::new().of(&logits, &targets);
        let right = logits.detach().argmax(Some(-1), false).eq(&targets).sum();
        Ok(Measured { loss, samples: targets.numel(), metrics: vec![("accuracy", right)] })
    }
}
