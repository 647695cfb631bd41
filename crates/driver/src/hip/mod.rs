//! HIP: AMD's GPUs, through their driver's own libraries.
//!
//! Two libraries are looked for at run time, so a program starts without them, and says what is
//! missing when a device is asked for: the driver's (libamdhip64) and the compiler's (comgr). No
//! ROCm SDK is needed: a kernel is emitted as LLVM IR, which comgr makes a code object of; what it
//! made is kept in files. The libraries may be named by `ELINVAR_HIP_LIBRARY` and
//! `ELINVAR_COMGR_LIBRARY`.
//!
//! No card has run this yet.

mod sys;

pub use sys::use_library;

use crate::streams::Streams;
use crate::streams::sys::{
    Event, Graph, Memory, Module, OtherStream, PinnedMemory, Shared, Stream, Timestamp, Transfer,
};
use crate::{Call, CallGraph, Driver, Info, Slice, VendorGemm, requirements};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::llvm::{self, Arch, TRIPLE};
use elinvar_kernel::interp::Launch;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The compiler library's name and version, and the instruction sets that it compiles for. No
/// device is needed.
///
/// # Errors
/// `DriverMissing` with what to install.
pub fn compiler() -> Result<(String, &'static [String])> {
    let comgr = sys::comgr()?;
    Ok((comgr.name(), comgr.isas()))
}

/// The code object of a kernel for an architecture. No device is needed.
///
/// # Errors
/// `DriverMissing` with what to install; `Unsupported` if the kernel needs what the architecture
/// lacks, or the library does not know it.
pub fn compile(kernel: &Kernel, arch: Arch) -> Result<Vec<u8>> {
    let text = text(kernel, arch)?;
    sys::comgr()?.compile(&kernel.name, &text, &format!("{TRIPLE}--{}", arch.name()))
}

fn text(kernel: &Kernel, arch: Arch) -> Result<String> {
    llvm::emit(kernel, llvm::target(kernel, arch))
        .map_err(|e| Error::unsupported(format!("rocm: {e} ({})", arch.name())))
}

/// An opened HIP device and one of its streams.
pub struct Hip {
    shared: Arc<Shared>,
    arch: Arch,
    /// The whole name of its instruction set.
    isa: String,
    /// The stream, if it is not the device's first.
    other: Option<OtherStream>,
}

impl fmt::Debug for Hip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hip({})", self.info().name)
    }
}

impl Hip {
    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }
    fn stream(&self) -> &Stream {
        self.other.as_ref().map_or(self.shared.first(), OtherStream::stream)
    }
}

impl Driver for Hip {
    const NAME: &'static str = "rocm";
    type Memory = Memory;
    type Module = Module;
    type Timestamp = Timestamp;
    type Graph = Graph;
    type Event = Event;
    type Pinned = PinnedMemory;
    type Transfer = Transfer;

    fn list() -> Result<Vec<Info>> {
        Ok(sys::physical()?.into_iter().map(|p| p.physical.info).collect())
    }
    fn open(number: usize) -> Result<Hip> {
        let found = crate::numbered(Self::NAME, sys::physical()?, number)?;
        let (shared, arch, isa) = sys::open(found)?;
        Ok(Hip { shared, arch, isa, other: None })
    }
    fn info(&self) -> &Info {
        &self.shared.physical.info
    }
    fn queue(&self) -> Result<Option<Hip>> {
        let other = OtherStream::new(&self.shared)?;
        Ok(other.map(|other| {
            let (shared, arch, isa) = (self.shared.clone(), self.arch, self.isa.clone());
            Hip { shared, arch, isa, other: Some(other) }
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
        let text = text(kernel, self.arch)?;
        let compiled = || sys::comgr()?.compile(&kernel.name, &text, &self.isa);
        let mut module = Module::new(&self.shared, kernel, &text, compiled)?;
        module.group_counts = 3;
        Ok(module)
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

impl Streams for Hip {}

impl CallGraph<Hip> for Graph {
    fn capture(device: &Hip, calls: &[Call<'_, Hip>]) -> Result<Option<Graph>> {
        Graph::new(&device.shared, device.stream(), calls)
    }
    fn replay(&self, device: &Hip) -> Result<()> {
        self.make_calls(device.stream())
    }
}
