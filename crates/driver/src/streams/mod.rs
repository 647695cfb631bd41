//! Devices with streams: what the drivers of NVIDIA and AMD have in common. Their functions do the
//! same under other names, so what is done with them is written once; a [`Vendor`] is the rest.

pub mod sys;

use crate::{Call, CallGraph, Driver, Info, Slice, VendorGemm, requirements};
use elinvar_core::{NativeWork, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::interp::Launch;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use sys::{
    Api, Event, Graph, Memory, Module, OtherStream, Physical, PinnedMemory, Shared, Stream, Timestamp,
    Transfer,
};

/// A driver of such devices.
pub trait Streams: Driver<Memory = Memory, Module = Module> {}

/// What a vendor does its own way. A value is what is known of an opened device.
pub trait Vendor: Clone + Send + Sync + 'static {
    /// As [`Driver::NAME`].
    const NAME: &'static str;
    /// The devices of this machine, as [`Driver::list`] has them.
    ///
    /// # Errors
    /// Those of [`Driver::list`].
    fn physical() -> Result<Vec<Physical>>;
    /// That kernels are emitted and compiled for a device.
    ///
    /// # Errors
    /// Those of [`Driver::open`].
    fn open(physical: &Physical) -> Result<(&'static Api, Self)>;
    /// Translates a kernel whose requirements the device meets.
    ///
    /// # Errors
    /// Those of [`Driver::compile`].
    fn compile(&self, shared: &Arc<Shared>, kernel: &Kernel) -> Result<Module>;
}

/// An opened device and one of its streams.
pub struct StreamDevice<V> {
    shared: Arc<Shared>,
    pub(crate) vendor: V,
    /// The stream, if it is not the device's first.
    other: Option<OtherStream>,
}

impl<V> StreamDevice<V> {
    fn stream(&self) -> &Stream {
        self.other.as_ref().map_or(self.shared.first(), OtherStream::stream)
    }
}

impl<V: Vendor> fmt::Debug for StreamDevice<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", V::NAME, self.info().name)
    }
}

impl<V: Vendor> Driver for StreamDevice<V> {
    const NAME: &'static str = V::NAME;
    type Memory = Memory;
    type Module = Module;
    type Timestamp = Timestamp;
    type Graph = Graph;
    type Event = Event;
    type Pinned = PinnedMemory;
    type Transfer = Transfer;

    fn list() -> Result<Vec<Info>> {
        Ok(V::physical()?.into_iter().map(|p| p.info).collect())
    }
    fn open(number: usize) -> Result<Self> {
        let physical = crate::numbered(V::NAME, V::physical()?, number)?;
        let (api, vendor) = V::open(&physical)?;
        Ok(StreamDevice { shared: Shared::open(api, physical)?, vendor, other: None })
    }
    fn info(&self) -> &Info {
        &self.shared.physical.info
    }
    fn queue(&self) -> Result<Option<Self>> {
        let other = OtherStream::new(&self.shared)?;
        Ok(other.map(|other| {
            let (shared, vendor) = (self.shared.clone(), self.vendor.clone());
            StreamDevice { shared, vendor, other: Some(other) }
        }))
    }
    fn record(&self) -> Result<Event> {
        self.stream().record(&self.shared)
    }
    fn after(&self, event: &Event) -> Result<()> {
        self.stream().after(&self.shared, event)
    }
    fn reached(&self, event: &Event) -> Result<bool> {
        event.reached()
    }
    fn wait_for(&self, event: &Event) -> Result<()> {
        event.wait()
    }
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        self.stream().allocate(&self.shared, bytes)
    }
    fn compile(&self, kernel: &Kernel) -> Result<Module> {
        requirements::check(V::NAME, self.info(), kernel)?;
        self.vendor.compile(&self.shared, kernel)
    }
    fn launch(
        &self,
        module: &Module,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        self.stream().queue().launch(&self.shared, module, buffers, launch, args)
    }
    fn multiply(&self, product: &VendorGemm, operands: [Slice<'_, Self>; 3]) -> Result<bool> {
        self.stream().queue().multiply(&self.shared, None, product, &operands)
    }
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        self.stream().queue().write(&self.shared, to, bytes)
    }
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        self.stream().queue().copy(&self.shared, from, to)
    }
    fn receive(&self, other: &Self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<bool> {
        self.stream().receive(&self.shared, (&other.shared, other.stream()), from, to)
    }
    fn lend(&self, parts: &[Slice<'_, Self>], work: NativeWork<'_>) -> Result<bool> {
        self.stream().lend(&self.shared, V::NAME, parts, work).map(|()| true)
    }
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        self.stream().read(&self.shared, from, bytes)
    }
    fn pin(&self, bytes: usize) -> Result<PinnedMemory> {
        PinnedMemory::new(&self.shared, bytes)
    }
    fn upload(&self, from: PinnedMemory, to: Slice<'_, Self>) -> Result<Transfer> {
        self.stream().upload(&self.shared, from, to)
    }
    fn download(&self, from: Slice<'_, Self>, to: PinnedMemory) -> Result<Transfer> {
        self.stream().download(&self.shared, from, to)
    }
    fn wait(&self) -> Result<()> {
        self.stream().wait(&self.shared)
    }
    fn mark(&self) -> Result<Timestamp> {
        self.stream().mark(&self.shared)
    }
    fn between(&self, from: &Timestamp, to: &Timestamp) -> Result<Duration> {
        from.until(to)
    }
}

impl<V: Vendor> Streams for StreamDevice<V> {}

impl<V: Vendor> CallGraph<StreamDevice<V>> for Graph {
    fn capture(device: &StreamDevice<V>, calls: &[Call<'_, StreamDevice<V>>]) -> Result<Option<Graph>> {
        Graph::new(&device.shared, device.stream(), calls)
    }
    fn replay(&self, device: &StreamDevice<V>) -> Result<()> {
        self.make_calls(device.stream())
    }
}
