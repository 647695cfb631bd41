//! A gradient shard on its way through its batches.

use super::pass::Passed;
use super::shard_sum::{Slot, wide};
use elinvar_core::philox::Stream;
use elinvar_core::{DType, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Gradients, Tensor};

/// A shard on its way through its batches.
pub(super) struct Shard<B: Backend> {
    pub streams: Vec<Stream>,
    pub buffers: Vec<Tensor<B>>,
    pub gradients: Option<Gradients<B>>,
    /// Of the loss times samples, and its dtype.
    pub loss: Option<Array<B>>,
    pub loss_dtype: DType,
    pub metrics: Vec<(&'static str, Array<B>)>,
    pub samples: usize,
}

/// The sum of two of which one or both may be nothing.
fn plus<B: Backend>(a: Option<Array<B>>, b: Option<Array<B>>) -> Result<Option<Array<B>>> {
    match (a, b) {
        (Some(a), Some(b)) => elinvar_ops::catalogue::add(&a, &b).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

impl<B: Backend> Shard<B> {
    /// The shard's gradient by a parameter, from that of its last batch; without that of the
    /// batches before, [`Shard::add`] adds nothing to the last one's.
    pub(super) fn term(&mut self, value: &Tensor<B>, last: Option<&Tensor<B>>) -> Result<Slot<B>> {
        let before = self.gradients.as_mut().and_then(|all| all.take(value));
        let sum = match (before, last) {
            (Some(before), Some(last)) => Some(elinvar_ops::catalogue::add(&before, last)?),
            (Some(before), None) => {
                self.gradients.iter_mut().for_each(|all| all.set(value, before.clone()));
                Some(before)
            }
            (None, last) => last.cloned(),
        };
        Ok(Slot::new(value.shape(), value.dtype().compute(), sum.map(|g| wide(&g)).transpose()?))
    }
    /// Adds the next batch.
    pub(super) fn add(&mut self, passed: Passed<B>) -> Result<()> {
        self.loss_dtype = passed.loss_dtype;
        self.samples += passed.samples;
        let mut metrics = vec![];
        for (i, (name, x)) in passed.metrics.into_iter().enumerate() {
            let had = self.metrics.get(i).filter(|had| had.0 == name).map(|had| had.1.clone());
            metrics.extend(plus(had, Some(x))?.map(|x| (name, x)));
        }
        self.metrics = metrics;
        if let Some((loss, gradients)) = passed.of_loss {
            self.loss = plus(self.loss.take(), Some(loss))?;
            match &mut self.gradients {
                None => self.gradients = Some(gradients),
                Some(sum) => sum.accumulate(gradients)?,
            }
        }
        Ok(())
    }
}
