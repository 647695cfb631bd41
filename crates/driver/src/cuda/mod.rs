//! CUDA: NVIDIA's GPUs, through their driver's own library.
//!
//! The library is looked for at run time, so a program starts without it, and says what is missing
//! when a device is asked for. No toolkit is needed: a kernel is emitted as PTX, which the driver
//! compiles; what it made is kept in files. The library may be named by `ELINVAR_CUDA_LIBRARY`, for
//! tests also an emulated one.

mod sys;

pub use sys::{Graph, Memory, Module, Timestamp, use_library};

use crate::{Call, CallGraph, Driver, Info, Slice, VendorGemm, requirements};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx;
use elinvar_kernel::interp::Launch;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use sys::Shared;

/// An opened CUDA device.
pub struct Cuda {
    shared: Arc<Shared>,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({})", self.info().name)
    }
}

impl Cuda {
    /// The compute capability, as in `sm_90`.
    pub fn capability(&self) -> u32 {
        self.shared.physical.capability
    }
}

impl Driver for Cuda {
    const NAME: &'static str = "cuda";
    type Memory = Memory;
    type Module = Module;
    type Timestamp = Timestamp;
    type Graph = Graph;

    fn list() -> Result<Vec<Info>> {
        Ok(sys::physical()?.into_iter().map(|p| p.info).collect())
    }
    fn open(number: usize) -> Result<Cuda> {
        let physical = crate::numbered(Self::NAME, sys::physical()?, number)?;
        Ok(Cuda { shared: Shared::open(physical)? })
    }
    fn info(&self) -> &Info {
        &self.shared.physical.info
    }
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        Memory::new(&self.shared, bytes)
    }
    fn compile(&self, kernel: &Kernel) -> Result<Module> {
        requirements::check(Self::NAME, self.info(), kernel)?;
        // What runs on the oldest devices runs on all of them, and is kept once for all.
        let target = ptx::target(kernel, self.shared.physical.capability);
        let text = ptx::emit(kernel, target)
            .map_err(|e| Error::unsupported(format!("cuda: {e} ({})", self.info().name)))?;
        Module::new(&self.shared, kernel, &text)
    }
    fn launch(
        &self,
        module: &Module,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        self.shared.queue().launch(&self.shared, module, buffers, launch, args)
    }
    fn multiply(&self, product: &VendorGemm, operands: [Slice<'_, Self>; 3]) -> Result<bool> {
        self.shared.queue().multiply(&self.shared, self.shared.stream(), product, &operands)
    }
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        self.shared.queue().write(&self.shared, to, bytes)
    }
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        self.shared.queue().copy(&self.shared, from, to)
    }
    fn receive(&self, other: &Self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<bool> {
        self.shared.receive(&other.shared, from, to)
    }
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        self.shared.read(from, bytes)
    }
    fn wait(&self) -> Result<()> {
        self.shared.wait()
    }
    fn mark(&self) -> Result<Timestamp> {
        Timestamp::new(&self.shared)
    }
    fn between(&self, from: &Timestamp, to: &Timestamp) -> Result<Duration> {
        from.until(to)
    }
}

impl CallGraph<Cuda> for Graph {
    fn capture(device: &Cuda, calls: &[Call<'_, Cuda>]) -> Result<Option<Graph>> {
        Graph::new(&device.shared, calls)
    }
    fn replay(&self, _: &Cuda) -> Result<()> {
        self.make_calls()
    }
}
