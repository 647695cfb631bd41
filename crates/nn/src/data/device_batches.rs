//! Batches on a device. The next one may be gathered and copied while a step computes: double
//! buffering.
//!
//! How it can be wrong: a batch that is overwritten while it is copied (so pinned memory is taken
//! back from a copy that is done), and memory of the device that grows with each batch (so copies
//! come behind the step that used the memory of the batch before the last).

use crate::data::{Batch, Batches, HostBatch};
use elinvar_core::{ErrorKind, HostTensor, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Event, Pinned, Stream, Tensor, Transfer};
use std::collections::VecDeque;
use std::fmt;

type HostPair = HostBatch<(HostTensor, HostTensor)>;

/// The batches of an epoch, on a device.
///
/// With double buffering a batch goes to the device by pinned memory and a stream of its own, and
/// the next one is on its way while a step computes, if the loop says when:
///
/// ```
/// use elinvar_core::{HostTensor, Shape};
/// use elinvar_nn::data::{Loader, Pairs};
/// use elinvar_reference::{Reference, ReferenceDevice as Device};
/// use std::sync::Arc;
///
/// let x = HostTensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], Shape::new(&[4])?)?;
/// let loader = Loader::new(Arc::new(Pairs::new(x.clone(), x)?), 2)?;
/// let mut batches = loader.epoch::<Reference>(0, 0, &Device);
/// let mut sum = 0.0;
/// while let Some(batch) = batches.next() {
///     let step = (batch?.x * 2.0).sum();
///     // The device has its work: time for the next batch, before something waits for this one.
///     batches.gather();
///     batches.send();
///     sum += step.to_vec::<f32>()?[0];
/// }
/// assert_eq!(sum, 20.0);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
///
/// The batches, their order and their errors are the same without: an error is that of the batch
/// that has it. At most one batch is ahead, and none past the end. If there is no memory for a copy
/// ahead of time, the batch is copied when it is asked for.
pub struct DeviceBatches<'a, B: Backend> {
    host: Batches<(HostTensor, HostTensor)>,
    device: &'a B::Device,
    /// None: a batch is made and copied when it is asked for.
    copier: Option<Copier<B>>,
    next: Next<B>,
}

/// The next batch.
enum Next<B: Backend> {
    NotMade,
    /// In host memory; in pinned memory too, if there is any.
    Gathered(Box<(HostPair, Option<[Pinned<B>; 2]>)>),
    /// Its copy was begun, or it cannot be made.
    Sent(Result<Batch<B>>),
}

impl<'a, B: Backend> DeviceBatches<'a, B> {
    pub(crate) fn new(
        host: Batches<(HostTensor, HostTensor)>,
        device: &'a B::Device,
        double_buffer: bool,
    ) -> Self {
        DeviceBatches { host, device, copier: double_buffer.then(Copier::new), next: Next::NotMade }
    }
    /// Makes the next batch in pinned memory, if it is not made yet.
    pub fn gather(&mut self) {
        let (Next::NotMade, Some(copier)) = (&self.next, &mut self.copier) else { return };
        self.next = match self.host.next() {
            None => Next::NotMade,
            Some(Err(e)) => Next::Sent(Err(e)),
            Some(Ok(batch)) => match copier.fill(&batch, self.device) {
                Ok(pinned) => Next::Gathered(Box::new((batch, Some(pinned)))),
                Err(e) if e.kind() == ErrorKind::OutOfMemory => Next::Gathered(Box::new((batch, None))),
                Err(e) => Next::Sent(Err(e)),
            },
        };
    }
    /// Begins to copy what was gathered, behind the work that the device was given until the last
    /// time.
    pub fn send(&mut self) {
        let Some(copier) = &mut self.copier else { return };
        self.next = match std::mem::replace(&mut self.next, Next::NotMade) {
            Next::Gathered(both) => match *both {
                (batch, Some(pinned)) => match copier.copy(pinned, self.device) {
                    Ok([x, y]) => Next::Sent(Ok(Batch { x, y, samples: batch.samples })),
                    Err(e) if e.kind() == ErrorKind::OutOfMemory => Next::Gathered(Box::new((batch, None))),
                    Err(e) => Next::Sent(Err(e)),
                },
                unpinned => Next::Gathered(Box::new(unpinned)),
            },
            other @ (Next::NotMade | Next::Sent(_)) => other,
        };
    }
}

impl<B: Backend> Iterator for DeviceBatches<'_, B> {
    type Item = Result<Batch<B>>;
    fn next(&mut self) -> Option<Result<Batch<B>>> {
        if self.copier.is_none() {
            return Some(self.host.next()?.and_then(|batch| batch.to_device(self.device)));
        }
        self.gather();
        self.send();
        match std::mem::replace(&mut self.next, Next::NotMade) {
            Next::NotMade => None,
            Next::Gathered(both) => Some(both.0.to_device(self.device)),
            Next::Sent(batch) => Some(batch),
        }
    }
}

impl<B: Backend> fmt::Debug for DeviceBatches<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBatches({}, double_buffer: {})", self.device, self.copier.is_some())
    }
}

/// Batches whose copies may be under way at once; each has pinned memory of its own.
const BUFFERS: usize = 2;

/// What copies batches.
struct Copier<B: Backend> {
    /// Made with the first copy.
    stream: Option<Stream<B>>,
    /// Copies of the last batches, the latest at the end.
    under_way: VecDeque<[Transfer<B>; 2]>,
    /// Pinned memory that nothing is copied from.
    spare: Vec<Pinned<B>>,
    /// The place behind all work that the device was given until the last copy.
    before: Option<Event>,
}

impl<B: Backend> Copier<B> {
    fn new() -> Self {
        Copier { stream: None, under_way: VecDeque::new(), spare: vec![], before: None }
    }

    /// A batch in pinned memory.
    fn fill(&mut self, batch: &HostPair, device: &B::Device) -> Result<[Pinned<B>; 2]> {
        if self.under_way.len() == BUFFERS {
            for copy in self.under_way.pop_front().into_iter().flatten() {
                self.spare.push(copy.wait()?);
            }
        }
        Ok([self.pinned(&batch.data.0, device)?, self.pinned(&batch.data.1, device)?])
    }
    /// A tensor in the smallest spare memory that it fits into, or in new one.
    fn pinned(&mut self, x: &HostTensor, device: &B::Device) -> Result<Pinned<B>> {
        let bytes = x.shape().numel() * x.dtype().size();
        let fits = self.spare.iter().enumerate().filter(|(_, p)| p.capacity() >= bytes);
        let mut pinned = match fits.min_by_key(|(_, p)| p.capacity()).map(|(i, _)| i) {
            Some(i) => self.spare.swap_remove(i).reuse(x.shape(), x.dtype())?,
            None => {
                // What was too small once is too small again.
                self.spare.retain(|p| p.capacity() > bytes);
                Pinned::new(x.shape(), x.dtype(), device)?
            }
        };
        pinned.copy_from(x)?;
        Ok(pinned)
    }

    /// Begins to copy a batch.
    fn copy(&mut self, [x, y]: [Pinned<B>; 2], device: &B::Device) -> Result<[Tensor<B>; 2]> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(Stream::new(device)?),
        };
        // The batch before the last is in memory that the step before the last has used: once that
        // step is done it is this batch's. The last step may go on.
        let behind_this_step = Stream::<B>::current(device)?.record()?;
        if let Some(event) = self.before.replace(behind_this_step) {
            stream.wait(&event)?;
        }
        let (x, y) = stream.scope(|| -> Result<_> { Ok((x.upload()?, y.upload()?)) })?;
        self.under_way.push_back([x.1, y.1]);
        Ok([x.0, y.0])
    }
}
