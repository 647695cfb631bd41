//! A pass of a gradient shard: what is measured of a batch, and the gradients.

use super::shard_sum::wide;
use super::train_step::ErasedObjective;
use crate::optim::GradScaler;
use elinvar_core::{DType, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Gradients, Tensor, autocast};

/// Forward and backward pass of a batch of a shard.
pub(super) struct Pass<'a, B: Backend, M, D> {
    pub objective: &'a dyn ErasedObjective<B, M, D>,
    pub model: &'a M,
    pub amp: Option<DType>,
}

/// What they give.
pub(super) struct Passed<B: Backend> {
    pub samples: usize,
    pub loss_dtype: DType,
    /// Of the loss times samples, and gradients; none without samples.
    pub of_loss: Option<(Array<B>, Gradients<B>)>,
    pub metrics: Vec<(&'static str, Array<B>)>,
}

/// The loss of which the gradient is taken.
pub(super) fn scaled<B: Backend>(scaler: &mut Option<GradScaler<B>>, loss: &Tensor<B>) -> Result<Tensor<B>> {
    match scaler {
        Some(scaler) => scaler.scale(loss),
        None => Ok(loss.clone()),
    }
}

impl<B: Backend, M, D> Pass<'_, B, M, D> {
    pub(super) fn run(
        &self,
        batch: &D,
        scaled: impl FnOnce(&Tensor<B>) -> Result<Tensor<B>>,
        backward: impl FnOnce(&Tensor<B>) -> Result<Gradients<B>>,
    ) -> Result<Passed<B>> {
        let measure = || self.objective.measure(self.model, batch);
        let m = match self.amp {
            Some(half) => autocast(half, measure)?,
            None => measure()?,
        };
        let loss_dtype = m.loss.dtype().compute();
        let metrics = m.metrics.iter().map(|(name, x)| Ok((*name, wide(x)?))).collect::<Result<_>>()?;
        // The mean of no samples is NaN, and has no part in a sum.
        let of_loss = if m.samples == 0 {
            None
        } else {
            let loss = m.loss.to_dtype(loss_dtype) * m.samples as f64;
            let gradients = backward(&scaled(&loss)?)?;
            Some((loss.detach().array().clone(), gradients))
        };
        Ok(Passed { samples: m.samples, loss_dtype, of_loss, metrics })
    }
}
