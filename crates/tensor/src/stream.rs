//! Streams of a device, events, and copies from and to pinned memory without a wait.
//!
//! Results do not depend on streams: work that reads what another stream computes comes behind it.
//! The rules are in `docs/guide/devices.md`.

use crate::Tensor;
use elinvar_core::{DType, Element, Error, HostTensor, Result, Shape};
use elinvar_ops::array::Array;
use elinvar_ops::backend::{Backend, DeviceOf, EventObject, PinnedObject, StreamObject, TransferObject};
use elinvar_ops::recording;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// An order of work on a device. Work of two streams may run side by side, where the device can
/// (`Properties::parallel_streams` of the crate `elinvar-devices`); within a stream, work runs in
/// the order in which it was asked for.
///
/// A new stream begins behind all work that the device was given until then. Work outside of every
/// scope is done in the device's first stream.
///
/// ```
/// use elinvar_core::Result;
/// use elinvar_reference::ReferenceDevice as Device;
/// use elinvar_tensor::{Stream, Tensor};
///
/// let x = Tensor::new([1.0f32, 2.0], &Device);
/// let side = Stream::new(&Device)?;
/// let y = side.scope(|| &x * 2.0);
/// let done = side.record()?;
/// Stream::new(&Device)?.wait(&done)?;
/// // A read waits for the work that computes the tensor, also without an event.
/// assert_eq!((y + x).to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub struct Stream<B: Backend> {
    device: B::Device,
    object: Arc<dyn StreamObject>,
}

impl<B: Backend> Stream<B> {
    /// A stream of a device.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports.
    pub fn new<D: DeviceOf<Backend = B>>(device: &D) -> Result<Stream<B>>
    where
        B: Backend<Device = D>,
    {
        Stream::of(device)
    }
    fn of(device: &B::Device) -> Result<Stream<B>> {
        recording::refuse("making a stream")?;
        Ok(Stream { device: device.clone(), object: B::stream(device)? })
    }
    /// The stream in whose scope this thread is; outside of every scope, the device's first.
    ///
    /// # Errors
    /// What opening the device reports.
    pub fn current<D: DeviceOf<Backend = B>>(device: &D) -> Result<Stream<B>>
    where
        B: Backend<Device = D>,
    {
        Stream::current_of(device)
    }
    fn current_of(device: &B::Device) -> Result<Stream<B>> {
        Ok(Stream { device: device.clone(), object: B::current_stream(device)? })
    }
    /// Its device.
    pub fn device(&self) -> &B::Device {
        &self.device
    }
    /// Runs `f`: what it asks of the stream's device in this thread is done in this stream. Maps
    /// that are put off are computed in it too, when they are read. Other devices are not
    /// concerned. Scopes may be nested; the inner one counts.
    pub fn scope<T>(&self, f: impl FnOnce() -> T) -> T {
        let (mut f, mut result) = (Some(f), None);
        self.object.scope(&mut || result = f.take().map(|f| f()));
        result.expect("a stream calls what it is given")
    }
    /// The place behind all work that the stream was given until now.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports; `Unsupported` in a function that is recorded.
    pub fn record(&self) -> Result<Event> {
        recording::refuse("recording an event")?;
        Ok(Event { object: self.object.record()? })
    }
    /// What the stream is given from now on comes behind an event. The host does not wait.
    ///
    /// # Errors
    /// `DeviceMismatch` if the event is another device's; what the device reports; `Unsupported` in
    /// a function that is recorded.
    pub fn wait(&self, event: &Event) -> Result<()> {
        recording::refuse("waiting for an event")?;
        self.object.wait(&*event.object)
    }
    /// Waits for all work that the stream was given.
    ///
    /// # Errors
    /// What the device reports; `Unsupported` in a function that is recorded.
    pub fn synchronize(&self) -> Result<()> {
        recording::refuse("waiting for a stream")?;
        self.object.synchronize()
    }
}

impl<B: Backend> Clone for Stream<B> {
    fn clone(&self) -> Self {
        Stream { device: self.device.clone(), object: self.object.clone() }
    }
}

impl<B: Backend> fmt::Debug for Stream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({})", self.device)
    }
}

/// A place in a stream.
#[derive(Clone, Debug)]
pub struct Event {
    object: Arc<dyn EventObject>,
}

impl Event {
    /// Did the device come there? Does not wait.
    ///
    /// # Errors
    /// What the device reports.
    pub fn is_done(&self) -> Result<bool> {
        self.object.is_reached()
    }
    /// Waits until the device comes there.
    ///
    /// # Errors
    /// What the device reports; `Unsupported` in a function that is recorded.
    pub fn synchronize(&self) -> Result<()> {
        recording::refuse("waiting for an event")?;
        self.object.wait()
    }
}

/// Elements in pinned host memory, which a device copies from and to by itself, while the host goes
/// on. On a device that works in the host's memory it is memory like any other.
pub struct Pinned<B: Backend> {
    device: B::Device,
    shape: Shape,
    dtype: DType,
    object: Box<dyn PinnedObject>,
}

impl<B: Backend> Pinned<B> {
    /// Memory for the elements of a tensor, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidArgument` if the shape has too many elements.
    pub fn new<D: DeviceOf<Backend = B>>(sizes: &[usize], dtype: DType, device: &D) -> Result<Pinned<B>>
    where
        B: Backend<Device = D>,
    {
        Pinned::of(Shape::new(sizes)?, dtype, device)
    }
    pub(crate) fn of(shape: Shape, dtype: DType, device: &B::Device) -> Result<Pinned<B>> {
        let object = B::pin(device, shape.numel() * dtype.size())?;
        Ok(Pinned { device: device.clone(), shape, dtype, object })
    }
    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    fn size(&self) -> usize {
        self.shape.numel() * self.dtype.size()
    }
    /// Bytes of the memory: at least those of the elements.
    pub fn capacity(&self) -> usize {
        self.object.bytes().len()
    }
    /// The same memory for the elements of another tensor; what they are is not said.
    ///
    /// # Errors
    /// `InvalidArgument` if they need more bytes than there are, or the shape has too many
    /// elements.
    pub fn reuse(self, sizes: &[usize], dtype: DType) -> Result<Pinned<B>> {
        let pinned = Pinned { shape: Shape::new(sizes)?, dtype, ..self };
        if pinned.size() > pinned.capacity() {
            return Err(Error::argument(format!(
                "pinned: {} x {dtype} needs {} bytes, and the memory has {}",
                pinned.shape,
                pinned.size(),
                pinned.capacity()
            )));
        }
        Ok(pinned)
    }
    /// The elements, row-major, as little-endian bytes; a bool is 0 or 1.
    pub fn bytes(&self) -> &[u8] {
        &self.object.bytes()[..self.size()]
    }
    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let size = self.size();
        &mut self.object.bytes_mut()[..size]
    }
    /// Fills it with the elements of a tensor in host memory.
    ///
    /// # Errors
    /// `DTypeMismatch`, or `ShapeMismatch` if it is not of this shape.
    pub fn copy_from(&mut self, x: &HostTensor) -> Result<()> {
        if x.dtype() != self.dtype {
            return Err(Error::dtype(format!("pinned: a tensor of {} for {}", x.dtype(), self.dtype)));
        }
        if *x.shape() != self.shape {
            return Err(Error::shape(format!("pinned: a tensor of shape {} for {}", x.shape(), self.shape)));
        }
        x.data().write_le_bytes(self.bytes_mut());
        Ok(())
    }
    /// Fills it with elements, row-major.
    ///
    /// # Errors
    /// `DTypeMismatch`, or `ShapeMismatch` if there are not as many.
    pub fn fill_from<T: Element>(&mut self, elements: &[T]) -> Result<()> {
        if T::DTYPE != self.dtype {
            return Err(Error::dtype(format!("pinned: elements of {} for {}", T::DTYPE, self.dtype)));
        }
        if elements.len() != self.shape.numel() {
            return Err(Error::shape(format!(
                "pinned: {} elements do not fill shape {}, which has {}",
                elements.len(),
                self.shape,
                self.shape.numel()
            )));
        }
        let bytes = T::wrap(elements.to_vec()).to_le_bytes();
        self.bytes_mut().copy_from_slice(&bytes);
        Ok(())
    }
    /// Begins to copy it to the device, in this thread's stream. Work that reads the tensor comes
    /// behind the copy by itself; the transfer gives the memory back when the copy is done.
    ///
    /// # Errors
    /// `Format` if a byte of a bool is neither 0 nor 1; `OutOfMemory`, or what the device reports;
    /// `Unsupported` in a function that is recorded.
    pub fn upload(self) -> Result<(Tensor<B>, Transfer<B>)> {
        recording::refuse("copying pinned memory")?;
        let Pinned { device, shape, dtype, object } = self;
        let (buffer, transfer) = B::upload_pinned(&device, object, dtype, shape.numel())?;
        let tensor = Tensor::from_array(Array::new(&device, buffer, shape.clone(), dtype));
        Ok((tensor, Transfer::new(device, shape, dtype, transfer)))
    }
    /// Begins to copy a tensor to it, in this thread's stream, behind the work that computes the
    /// tensor.
    ///
    /// # Errors
    /// `ShapeMismatch`, `DTypeMismatch`, or `DeviceMismatch` if the tensor does not fit; what the
    /// device reports; `Unsupported` in a function that is recorded.
    pub fn download(self, x: &Tensor<B>) -> Result<Transfer<B>> {
        recording::refuse("copying to pinned memory")?;
        let Pinned { device, shape, dtype, object } = self;
        if *x.shape() != shape {
            return Err(Error::shape(format!("pinned: a tensor of shape {} for {shape}", x.shape())));
        }
        if x.dtype() != dtype {
            return Err(Error::dtype(format!("pinned: a tensor of {} for {dtype}", x.dtype())));
        }
        let transfer = B::download_pinned(x.device(), x.array().view(), object)?;
        Ok(Transfer::new(device, shape, dtype, transfer))
    }
}

impl<B: Backend> fmt::Debug for Pinned<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} x {} for {})", self.shape, self.dtype, self.device)
    }
}

/// A copy that is under way, with the pinned memory that it needs. Waited for, or awaited as a
/// future, it gives the memory back; dropped, it is waited for.
///
/// As a future, it has a thread that waits for the device, from its first poll on; but in a
/// browser, which has no threads, and wakes the task itself.
#[must_use = "a copy that is dropped is waited for"]
pub struct Transfer<B: Backend> {
    device: B::Device,
    shape: Shape,
    dtype: DType,
    event: Event,
    /// It is taken out when the copy is done.
    object: Option<Box<dyn TransferObject>>,
    /// The task that is woken when the device comes to the event.
    waker: Option<Arc<Mutex<Waker>>>,
}

impl<B: Backend> Transfer<B> {
    fn new(device: B::Device, shape: Shape, dtype: DType, object: Box<dyn TransferObject>) -> Self {
        let event = Event { object: object.event().clone() };
        Transfer { device, shape, dtype, event, object: Some(object), waker: None }
    }
    /// The place behind the copy.
    pub fn event(&self) -> &Event {
        &self.event
    }
    /// Is it done? Does not wait.
    ///
    /// # Errors
    /// What the device reports.
    pub fn is_done(&self) -> Result<bool> {
        self.event.is_done()
    }
    /// Waits for the copy; gives the memory back.
    ///
    /// # Errors
    /// What the device reports.
    pub fn wait(mut self) -> Result<Pinned<B>> {
        self.finish()
    }
    fn finish(&mut self) -> Result<Pinned<B>> {
        let object = self.object.take().ok_or_else(|| Error::argument("transfer: it was awaited before"))?;
        let (device, shape, dtype) = (self.device.clone(), self.shape.clone(), self.dtype);
        Ok(Pinned { device, shape, dtype, object: object.wait()? })
    }
}

impl<B: Backend> fmt::Debug for Transfer<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({} x {} for {})", self.shape, self.dtype, self.device)
    }
}

impl<B: Backend> Unpin for Transfer<B> {}

impl<B: Backend> Future for Transfer<B> {
    type Output = Result<Pinned<B>>;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let told = this.object.as_ref().and_then(|o| o.poll_done(context.waker()));
        if let Some(is_done) = told {
            return if is_done? { Poll::Ready(this.finish()) } else { Poll::Pending };
        }
        let locked = |w: &Mutex<Waker>| w.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match &this.waker {
            // First, so that it is not missed when the event comes now.
            Some(waker) => {
                waker.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
            }
            None => {
                let waker = Arc::new(Mutex::new(context.waker().clone()));
                this.waker = Some(waker.clone());
                if !this.is_done()? {
                    let event = this.event.object.clone();
                    std::thread::spawn(move || {
                        // What is wrong is said to the next poll.
                        let _ = event.wait();
                        locked(&waker).wake();
                    });
                }
            }
        }
        if this.is_done()? { Poll::Ready(this.finish()) } else { Poll::Pending }
    }
}
