//! Sources of batches.

use crate::data::{Batch, Collate, Dataset, DeviceBatches, Loader};
use elinvar_core::{HostTensor, Result};
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
    type Batch;
    /// Batches in an epoch.
    fn batches(&self) -> usize;
    /// The batches of an epoch from batch `start` on; an iterator is a feed by [`OnDemand`].
    fn epoch<'a>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Box<dyn Feed<Self::Batch> + 'a>;
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
}
