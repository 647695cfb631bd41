//! CUDA: NVIDIA's GPUs, through their driver's own library.
//!
//! The library is looked for at run time, so a program starts without it, and says what is missing
//! when a device is asked for. No toolkit is needed: a kernel is emitted as PTX, which the driver
//! compiles; what it made is kept in files. The library may be named by `ELINVAR_CUDA_LIBRARY`, for
//! tests also an emulated one.

mod sys;

pub use crate::streams::sys::{Event, Graph, Memory, Module, PinnedMemory, Timestamp, Transfer};
pub use sys::use_library;
pub(crate) use sys::{NvidiaFunctions, maps};

use crate::streams::sys::{Api, Physical, Shared};
use crate::streams::{StreamDevice, Vendor};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::ptx;
use std::sync::Arc;

/// An opened CUDA device and one of its streams.
pub type Cuda = StreamDevice<Nvidia>;

/// What only a device of NVIDIA's has: a compute capability.
#[derive(Clone, Copy, Debug)]
pub struct Nvidia {
    capability: u32,
}

impl Cuda {
    /// The compute capability, as in `sm_90`.
    pub fn capability(&self) -> u32 {
        self.vendor.capability
    }
}

impl Vendor for Nvidia {
    const NAME: &'static str = "cuda";

    fn physical() -> Result<Vec<Physical>> {
        sys::physical()
    }
    fn open(physical: &Physical) -> Result<(&'static Api, Nvidia)> {
        let (api, capability) = sys::open(physical)?;
        Ok((api, Nvidia { capability }))
    }
    fn compile(&self, shared: &Arc<Shared>, kernel: &Kernel) -> Result<Module> {
        // What runs on the oldest devices runs on all of them, and is kept once for all.
        let target = ptx::target(kernel, self.capability);
        let text = ptx::emit(kernel, target)
            .map_err(|e| Error::unsupported(format!("cuda: {e} ({})", shared.physical.info.name)))?;
        sys::module(shared, kernel, &text)
    }
}
