//! Streams: several orders of work on one device, events between them, and copies without a wait
//! for.
//!
//! What streams, events, pinned memory and copies are differs from backend to backend, and no kind
//! of work depends on it; so they are objects, and a device takes back those that it made.

use super::{Memory, View};
use elinvar_core::{DType, Error, ErrorKind, NativeWork, Result};
use std::any::Any;
use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::task::Waker;

/// An order of work. See `docs/internals/streams.md`.
pub trait StreamObject: Debug + Send + Sync {
    /// Runs `f`; what it asks of the device in this thread is done in this stream.
    fn scope(&self, f: &mut dyn FnMut());
    /// The place behind all work that the stream was given until now.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn record(&self) -> Result<Arc<dyn EventObject>>;
    /// What the stream is given from now on comes behind an event.
    ///
    /// # Errors
    /// `DeviceMismatch` if it is of another device; `OutOfMemory`, `DeviceLost`.
    fn wait(&self, event: &dyn EventObject) -> Result<()>;
    /// Waits for all work that the stream was given.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn synchronize(&self) -> Result<()>;
}

/// A place in a stream.
pub trait EventObject: Any + Debug + Send + Sync {
    /// Did the device come there?
    ///
    /// # Errors
    /// `DeviceLost`.
    fn is_reached(&self) -> Result<bool>;
    /// Waits until the device comes there.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn wait(&self) -> Result<()>;
    /// The device's name.
    fn device(&self) -> String;
}

/// Memory of the host that a device copies from and to by itself.
pub trait PinnedObject: Any + Debug + Send + Sync {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
    /// Its bytes, to be changed.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The device's name.
    fn device(&self) -> String;
}

/// A copy that is under way, with the pinned memory that it needs. Dropped, it is waited for.
pub trait TransferObject: Debug + Send + Sync {
    /// The place behind it.
    fn event(&self) -> &Arc<dyn EventObject>;
    /// Waits for it; gives the memory back.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn wait(self: Box<Self>) -> Result<Box<dyn PinnedObject>>;
    /// Is it done? If not, the task is woken when it is. `None` if the device wakes no task: then
    /// a thread has to wait for the event.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn poll_done(&self, waker: &Waker) -> Option<Result<bool>>;
}

/// Makes streams and pinned memory, and copies between that and the device. See
/// [the rules](super).
pub trait Streams: Memory {
    /// A stream, which begins behind all work that the device was given until now. On a device with
    /// one queue it is an order in that.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    fn stream(d: &Self::Device) -> Result<Arc<dyn StreamObject>>;
    /// The stream in whose scope this thread is; outside of every scope, the device's first.
    ///
    /// # Errors
    /// What opening the device reports.
    fn current_stream(d: &Self::Device) -> Result<Arc<dyn StreamObject>>;
    /// So many bytes of pinned memory, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    fn pin(d: &Self::Device, bytes: usize) -> Result<Box<dyn PinnedObject>>;
    /// A buffer of `len` elements, copied from the first bytes of pinned memory in this thread's
    /// stream.
    ///
    /// # Errors
    /// `DeviceMismatch` if the memory was pinned for another device; `Format` if a byte of a bool
    /// is neither 0 nor 1; `OutOfMemory`, `DeviceLost`.
    fn upload_pinned(
        d: &Self::Device,
        from: Box<dyn PinnedObject>,
        dtype: DType,
        len: usize,
    ) -> Result<(Self::Buffer, Box<dyn TransferObject>)>;
    /// Copies a view, row-major, to the first bytes of pinned memory in this thread's stream.
    ///
    /// # Errors
    /// As [`Streams::upload_pinned`].
    fn download_pinned(
        d: &Self::Device,
        x: View<'_, Self>,
        to: Box<dyn PinnedObject>,
    ) -> Result<Box<dyn TransferObject>>;
    /// Has `work` give work to this thread's stream by another library of the device's vendor. It
    /// is told where the elements of these views are, row-major, and behind them those of new
    /// buffers of so many elements, which it writes. `None`, and nothing was done, if there are no
    /// such libraries for the device.
    ///
    /// # Errors
    /// Those of `work`; `OutOfMemory`, `DeviceLost`.
    fn lend(
        d: &Self::Device,
        reads: &[View<'_, Self>],
        writes: &[(DType, usize)],
        work: NativeWork<'_>,
    ) -> Result<Option<Vec<Self::Buffer>>>;
}

/// The error of an event or memory of another device.
pub fn of_another_device(device: &dyn Display, what: &str, other: &str) -> Error {
    let text = format!("{device}: {what} of {other}; a stream takes those of its own device");
    Error::new(ErrorKind::DeviceMismatch, text)
}

/// What is ordered on a device whose work is done when it is asked for: nothing more.
#[derive(Clone, Debug)]
pub struct HostStream(pub String);

impl StreamObject for HostStream {
    fn scope(&self, f: &mut dyn FnMut()) {
        f();
    }
    fn record(&self) -> Result<Arc<dyn EventObject>> {
        Ok(Arc::new(self.clone()))
    }
    fn wait(&self, event: &dyn EventObject) -> Result<()> {
        if event.device() != self.0 {
            return Err(of_another_device(&self.0, "an event", &event.device()));
        }
        Ok(())
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// Its events were reached when they were made.
impl EventObject for HostStream {
    fn is_reached(&self) -> Result<bool> {
        Ok(true)
    }
    fn wait(&self) -> Result<()> {
        Ok(())
    }
    fn device(&self) -> String {
        self.0.clone()
    }
}

/// Pinned memory of such a device: memory like any other.
#[derive(Debug)]
pub struct HostPinned {
    device: String,
    bytes: Vec<u8>,
}

impl HostPinned {
    /// So many bytes, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn zeroed(device: String, bytes: usize) -> Result<Box<dyn PinnedObject>> {
        Ok(Box::new(HostPinned { device, bytes: elinvar_core::host::filled(bytes, 0)? }))
    }
    /// What a device takes back as its own.
    ///
    /// # Errors
    /// `DeviceMismatch`.
    pub fn of(device: &dyn Display, pinned: Box<dyn PinnedObject>) -> Result<Box<dyn PinnedObject>> {
        if pinned.device() != device.to_string() {
            return Err(of_another_device(device, "pinned memory", &pinned.device()));
        }
        Ok(pinned)
    }
}

impl PinnedObject for HostPinned {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
    fn device(&self) -> String {
        self.device.clone()
    }
}

/// A copy that is done.
#[derive(Debug)]
pub struct HostTransfer {
    event: Arc<dyn EventObject>,
    pinned: Box<dyn PinnedObject>,
}

impl HostTransfer {
    /// With the memory that it needed.
    pub fn done(pinned: Box<dyn PinnedObject>) -> Box<dyn TransferObject> {
        Box::new(HostTransfer { event: Arc::new(HostStream(pinned.device())), pinned })
    }
}

impl TransferObject for HostTransfer {
    fn event(&self) -> &Arc<dyn EventObject> {
        &self.event
    }
    fn wait(self: Box<Self>) -> Result<Box<dyn PinnedObject>> {
        Ok(self.pinned)
    }
    fn poll_done(&self, _: &Waker) -> Option<Result<bool>> {
        Some(Ok(true))
    }
}

/// Writes [`Streams`] for a backend whose work is done when it is asked for: a stream is the order
/// of the calls, and a copy is done when it has been asked for. `impl [generics] Backend`.
#[macro_export]
macro_rules! host_streams {
    (impl [$($g:tt)*] $backend:ty) => {
        impl<$($g)*> $crate::backend::Streams for $backend {
            fn stream(d: &Self::Device) -> $crate::t::Result<std::sync::Arc<dyn $crate::t::StreamObject>> {
                Ok(std::sync::Arc::new($crate::t::HostStream(d.to_string())))
            }
            fn current_stream(
                d: &Self::Device,
            ) -> $crate::t::Result<std::sync::Arc<dyn $crate::t::StreamObject>> {
                <Self as $crate::backend::Streams>::stream(d)
            }
            fn pin(d: &Self::Device, bytes: usize) -> $crate::t::Result<Box<dyn $crate::t::PinnedObject>> {
                $crate::t::HostPinned::zeroed(d.to_string(), bytes)
            }
            fn upload_pinned(
                d: &Self::Device,
                from: Box<dyn $crate::t::PinnedObject>,
                dtype: $crate::t::DType,
                len: usize,
            ) -> $crate::t::Result<(Self::Buffer, Box<dyn $crate::t::TransferObject>)> {
                let from = $crate::t::HostPinned::of(d, from)?;
                let data = $crate::t::HostData::from_le_bytes(dtype, &from.bytes()[..len * dtype.size()])?;
                let buffer = <Self as $crate::backend::Memory>::upload(d, data)?;
                Ok((buffer, $crate::t::HostTransfer::done(from)))
            }
            fn download_pinned(
                d: &Self::Device,
                x: $crate::t::View<'_, Self>,
                to: Box<dyn $crate::t::PinnedObject>,
            ) -> $crate::t::Result<Box<dyn $crate::t::TransferObject>> {
                let mut to = $crate::t::HostPinned::of(d, to)?;
                let bytes = <Self as $crate::backend::Memory>::download(d, x)?.to_le_bytes();
                to.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                Ok($crate::t::HostTransfer::done(to))
            }
            fn lend(
                _: &Self::Device,
                _: &[$crate::t::View<'_, Self>],
                _: &[($crate::t::DType, usize)],
                _: $crate::t::NativeWork<'_>,
            ) -> $crate::t::Result<Option<Vec<Self::Buffer>>> {
                Ok(None)
            }
        }
    };
}
