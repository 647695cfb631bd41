//! CUDA: NVIDIA's GPUs, through their driver's own library.
//!
//! The library is looked for at run time, so a program starts without it, and says what is missing
//! when a device is asked for. No toolkit is needed: a kernel is emitted as PTX, which the driver
//! compiles; what it made is kept in files. The library may be named by `ELINVAR_CUDA_LIBRARY`, for
//! tests also an emulated one.

mod sys;

pub use crate::streams::sys::{Event, Graph, Memory, Module, PinnedMemory, Timestamp, Transfer};
pub use sys::use_library;
pub(crate) use sys::{CublasLt, NvidiaFunctions, maps};

use crate::streams::Streams;
use crate::streams::sys::{OtherStream, Shared, Stream};
use crate::{Call, CallGraph, Driver, Info, Slice, VendorGemm, requirements};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx;
use elinvar_kernel::interp::Launch;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An opened CUDA device and one of its streams.
pub struct Cuda {
    shared: Arc<Shared>,
    capability: u32,
    /// The stream, if it is not the device's first.
    other: Option<OtherStream>,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({})", self.info().name)
    }
}

impl Cuda {
    /// The compute capability, as in `sm_90`.
    pub fn capability(&self) -> u32 {
        self.capability
    }
    fn stream(&self) -> &Stream {
        self.other.as_ref().map_or(self.shared.first(), OtherStream::stream)
    }
}

impl Driver for Cuda {
    const NAME: &'static str = "cuda";
    type Memory = Memory;
    type Module = Module;
    type Timestamp = Timestamp;
    type Graph = Graph;
    type Event = Event;
    type Pinned = PinnedMemory;
    type Transfer = Transfer;

    fn list() -> Result<Vec<Info>> {
        Ok(sys::physical()?.into_iter().map(|p| p.info).collect())
    }
    fn open(number: usize) -> Result<Cuda> {
        let physical = crate::numbered(Self::NAME, sys::physical()?, number)?;
        let (shared, capability) = sys::open(physical)?;
        Ok(Cuda { shared, capability, other: None })
    }
    fn info(&self) -> &Info {
        &self.shared.physical.info
    }
    fn queue(&self) -> Result<Option<Cuda>> {
        let other = OtherStream::new(&self.shared)?;
        Ok(other.map(|other| {
            let (shared, capability) = (self.shared.clone(), self.capability);
            Cuda { shared, capability, other: Some(other) }
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
        requirements::check(Self::NAME, self.info(), kernel)?;
        // What runs on the oldest devices runs on all of them, and is kept once for all.
        let target = ptx::target(kernel, self.capability);
        let text = ptx::emit(kernel, target)
            .map_err(|e| Error::unsupported(format!("cuda: {e} ({})", self.info().name)))?;
        sys::module(&self.shared, kernel, &text)
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

impl Streams for Cuda {}

impl CallGraph<Cuda> for Graph {
    fn capture(device: &Cuda, calls: &[Call<'_, Cuda>]) -> Result<Option<Graph>> {
        Graph::new(&device.shared, device.stream(), calls)
    }
    fn replay(&self, device: &Cuda) -> Result<()> {
        self.make_calls(device.stream())
    }
}
