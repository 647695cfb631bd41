//! Sources of batches.

use crate::data::{Batch, Collate, Dataset, Loader};
use elinvar_core::{HostTensor, Result};
use elinvar_ops::Backend;

/// Batches, epoch after epoch. The samples of a batch depend on the epoch and the batch index
/// alone, so that a run can be resumed.
pub trait Source<B: Backend> {
    /// A batch on the device.
    type Batch;
    /// Batches in an epoch.
    fn batches(&self) -> usize;
    /// The batches of an epoch from batch `start` on.
    fn epoch<'a>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Box<dyn Iterator<Item = Result<Self::Batch>> + 'a>;
}

impl<B: Backend, D, C> Source<B> for Loader<D, C>
where
    D: Dataset + 'static,
    C: Collate<D::Item, Batch = (HostTensor, HostTensor)> + 'static,
{
    type Batch = Batch<B>;
    fn batches(&self) -> usize {
        Loader::batches(self)
    }
    fn epoch<'a>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Box<dyn Iterator<Item = Result<Batch<B>>> + 'a> {
        Box::new(Loader::epoch(self, epoch, start, device))
    }
}
