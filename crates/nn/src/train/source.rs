//! Sources of batches.

use crate::data::{Batch, Collate, Dataset, DeviceBatches, Loader};
use elinvar_core::{Error, HostTensor, Result};
use elinvar_distributed::Runs;
use elinvar_ops::Backend;

/// The batches of an epoch, in their order.
///
/// When a step has been given to the device, a training loop calls [`gather`](Feed::gather), and
/// [`send`](Feed::send) once it is sure of another step. The batches do not depend on it.
pub trait Feed<T>: Iterator<Item = Result<T>> {
    /// Makes the next batch in host memory, if it is not made yet. Its error is kept until it is
    /// asked for.
    fn gather(&mut self);
    /// Begins to copy what was gathered to the device.
    fn send(&mut self);
}

/// A [`Feed`] that makes a batch when it is asked for.
#[derive(Clone, Debug)]
pub struct OnDemand<I>(pub I);

impl<I: Iterator> Iterator for OnDemand<I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<T, I: Iterator<Item = Result<T>>> Feed<T> for OnDemand<I> {
    fn gather(&mut self) {}
    fn send(&mut self) {}
}

impl<B: Backend> Feed<Batch<B>> for DeviceBatches<'_, B> {
    fn gather(&mut self) {
        DeviceBatches::gather(self);
    }
    fn send(&mut self) {
        DeviceBatches::send(self);
    }
}

/// Batches, epoch after epoch. The samples of a batch depend on the epoch and the batch index
/// alone, so that a run can be resumed.
pub trait Source<B: Backend> {
    /// A batch on the device.
    type Batch: Send;
    /// Batches in an epoch.
    fn batches(&self) -> usize;
    /// The batches of an epoch from batch `start` on; an iterator is a feed by [`OnDemand`].
    fn epoch<'a>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Box<dyn Feed<Self::Batch> + 'a>;
    /// The gradient shards of a worker: of each batch from batch `start` on, its contiguous parts
    /// of samples in `runs.of(worker)`, one after the other.
    ///
    /// # Errors
    /// `Unsupported` for a source that is not cut, which is all that this method says unless it is
    /// implemented; `InvalidArgument` if a batch has fewer samples than there are shards.
    fn epoch_of_shards<'a>(
        &'a self,
        _runs: Runs,
        _worker: usize,
        _epoch: u64,
        _start: usize,
        _device: &'a B::Device,
    ) -> Result<Box<dyn Feed<Self::Batch> + 'a>> {
        Err(Error::unsupported("train: this source of batches is not cut into gradient shards; a Loader is"))
    }
    /// What tells this data from others, for workers that must have the same: by itself, the number
    /// of batches.
    ///
    /// # Errors
    /// Those of the data.
    fn fingerprint(&self) -> Result<String> {
        Ok(self.batches().to_string())
    }
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
    fn epoch<'a>(&'a self, epoch: u64, start: usize, device: &'a B::Device) -> Box<dyn Feed<Batch<B>> + 'a> {
        Box::new(Loader::epoch(self, epoch, start, device))
    }
    fn epoch_of_shards<'a>(
        &'a self,
        runs: Runs,
        worker: usize,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Result<Box<dyn Feed<Batch<B>> + 'a>> {
        Ok(Box::new(Loader::epoch_of_shards(self, runs, worker, epoch, start, device)?))
    }
    fn fingerprint(&self) -> Result<String> {
        Loader::fingerprint(self)
    }
}
