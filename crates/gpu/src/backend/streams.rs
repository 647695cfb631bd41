//! Streams of a GPU: the trait `Streams`.

use super::GpuView;
use crate::Gpu;
use crate::allocator::PieceRange;
use crate::buffer::GpuBuffer;
use crate::device::GpuDevice;
use crate::queues::{Queue, QueueEvent};
use elinvar_core::{DType, Error, NativeWork, Result};
use elinvar_driver::{Driver, PendingCopy};
use elinvar_ops::backend::*;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// A queue of a device; `None`: the first.
struct GpuStream<D: Driver> {
    device: GpuDevice<D>,
    queue: Option<Arc<Queue<D>>>,
}

/// A place in one of a device's queues.
struct GpuEvent<D: Driver> {
    device: GpuDevice<D>,
    event: QueueEvent<D>,
}

/// Pinned memory of a device.
struct GpuPinned<D: Driver> {
    device: GpuDevice<D>,
    memory: D::Pinned,
}

/// A copy of a device, and the event behind it.
struct GpuTransfer<D: Driver> {
    device: GpuDevice<D>,
    transfer: D::Transfer,
    event: Arc<dyn EventObject>,
}

macro_rules! debug {
    ($($Type:ident)*) => {
        $(impl<D: Driver> fmt::Debug for $Type<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($Type), "({})"), self.device)
            }
        })*
    };
}
debug!(GpuStream GpuEvent GpuPinned GpuTransfer);

impl<D: Driver> StreamObject for GpuStream<D> {
    fn scope(&self, f: &mut dyn FnMut()) {
        self.device.within(self.queue.as_ref(), f);
    }
    fn record(&self) -> Result<Arc<dyn EventObject>> {
        let o = self.device.opened()?;
        let event = o.queue(self.queue.as_ref()).record(o)?;
        Ok(Arc::new(GpuEvent { device: self.device.clone(), event }))
    }
    fn wait(&self, event: &dyn EventObject) -> Result<()> {
        let own = (event as &dyn Any).downcast_ref::<GpuEvent<D>>().filter(|e| e.device == self.device);
        let own = own.ok_or_else(|| of_another_device(&self.device, "an event", &event.device()))?;
        let o = self.device.opened()?;
        o.queue(self.queue.as_ref()).after(o, &own.event)
    }
    fn synchronize(&self) -> Result<()> {
        let o = self.device.opened()?;
        o.queue(self.queue.as_ref()).driver(o).wait()
    }
}

impl<D: Driver> EventObject for GpuEvent<D> {
    fn is_reached(&self) -> Result<bool> {
        self.device.driver()?.reached(&self.event.event)
    }
    fn wait(&self) -> Result<()> {
        self.device.driver()?.wait_for(&self.event.event)
    }
    fn device(&self) -> String {
        self.device.to_string()
    }
}

impl<D: Driver> PinnedObject for GpuPinned<D> {
    fn bytes(&self) -> &[u8] {
        self.memory.as_ref()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut()
    }
    fn device(&self) -> String {
        self.device.to_string()
    }
}

impl<D: Driver> TransferObject for GpuTransfer<D> {
    fn event(&self) -> &Arc<dyn EventObject> {
        &self.event
    }
    fn wait(self: Box<Self>) -> Result<Box<dyn PinnedObject>> {
        let GpuTransfer { device, transfer, .. } = *self;
        Ok(Box::new(GpuPinned { memory: transfer.wait()?, device }))
    }
    fn poll_done(&self, waker: &Waker) -> Option<Result<bool>> {
        self.transfer.poll_done(waker)
    }
}

/// Pinned memory that a device takes back as its own.
fn own<D: Driver>(d: &GpuDevice<D>, pinned: Box<dyn PinnedObject>) -> Result<D::Pinned> {
    let other = pinned.device();
    let own = (pinned as Box<dyn Any>).downcast::<GpuPinned<D>>().ok().filter(|p| p.device == *d);
    Ok(own.ok_or_else(|| of_another_device(d, "pinned memory", &other))?.memory)
}

/// A copy that was just given to this thread's queue.
fn under_way<D: Driver>(d: &GpuDevice<D>, transfer: D::Transfer) -> Result<Box<dyn TransferObject>> {
    let o = d.opened()?;
    let event = o.queue(o.scope().as_ref()).record(o)?;
    let event = Arc::new(GpuEvent { device: d.clone(), event });
    Ok(Box::new(GpuTransfer { device: d.clone(), transfer, event }))
}

impl<D: Driver> Streams for Gpu<D> {
    fn stream(d: &GpuDevice<D>) -> Result<Arc<dyn StreamObject>> {
        let queue = d.opened()?.add_queue()?;
        Ok(Arc::new(GpuStream { device: d.clone(), queue }))
    }
    fn current_stream(d: &GpuDevice<D>) -> Result<Arc<dyn StreamObject>> {
        let queue = d.opened()?.scope();
        Ok(Arc::new(GpuStream { device: d.clone(), queue }))
    }
    fn pin(d: &GpuDevice<D>, bytes: usize) -> Result<Box<dyn PinnedObject>> {
        Ok(Box::new(GpuPinned { device: d.clone(), memory: d.driver()?.pin(bytes)? }))
    }
    fn upload_pinned(
        d: &GpuDevice<D>,
        from: Box<dyn PinnedObject>,
        dtype: DType,
        len: usize,
    ) -> Result<(GpuBuffer<D>, Box<dyn TransferObject>)> {
        let from = own(d, from)?;
        let bytes = &from.as_ref()[..len * dtype.size()];
        if let Some(i) = bytes.iter().position(|b| dtype == DType::Bool && *b > 1) {
            return Err(Error::format(format!(
                "element {i} of a tensor of bool is the byte {}; 0 and 1 would fit",
                bytes[i]
            )));
        }
        let range = match dtype {
            DType::I64 => {
                let all = bytes.as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c));
                all.clone().min().zip(all.max()).map(|(a, b)| [a, b])
            }
            _ => None,
        };
        let bytes = bytes.len() as u64;
        // Recorded work has it already when it is done again.
        d.unrecorded(|| {
            let piece = Arc::new(d.take(bytes as usize)?);
            let transfer = under_way(d, d.upload(from, PieceRange::new(&piece, bytes), bytes)?)?;
            Ok((GpuBuffer::known(dtype, len, piece, range), transfer))
        })
    }
    fn download_pinned(
        d: &GpuDevice<D>,
        x: GpuView<'_, D>,
        to: Box<dyn PinnedObject>,
    ) -> Result<Box<dyn TransferObject>> {
        d.may_wait()?;
        let to = own(d, to)?;
        let len = x.shape().numel();
        let copied;
        let buffer = if x.layout.offset() == 0 && x.layout.is_contiguous() {
            x.buffer
        } else {
            copied = Self::copy(d, x)?;
            &copied
        };
        under_way(d, d.download(buffer.part()?, (len * x.dtype.size()) as u64, to)?)
    }
    fn lend(
        d: &GpuDevice<D>,
        reads: &[GpuView<'_, D>],
        writes: &[(DType, usize)],
        work: NativeWork<'_>,
    ) -> Result<Option<Vec<GpuBuffer<D>>>> {
        d.may_wait()?;
        let mut copies = Vec::new();
        for x in reads.iter().filter(|x| !x.layout.is_contiguous()) {
            copies.push(Self::copy(d, *x)?);
        }
        let (mut copies, mut parts) = (copies.iter(), Vec::with_capacity(reads.len()));
        for x in reads {
            let (buffer, skipped) = match x.layout.is_contiguous() {
                true if x.shape().numel() == 0 => (x.buffer, 0),
                true => (x.buffer, x.layout.offset() * x.dtype.size()),
                false => (copies.next().expect("it was copied above"), 0),
            };
            parts.push(buffer.part()?.skip(skipped as u64));
        }
        let new = |&(dtype, len): &(DType, usize)| GpuBuffer::uninit(d, dtype, len);
        let y = writes.iter().map(new).collect::<Result<Vec<_>>>()?;
        let written = y.iter().map(GpuBuffer::part).collect::<Result<Vec<_>>>()?;
        let there = d.lend(&parts, &written, work)?;
        drop(written);
        Ok(there.then_some(y))
    }
}
