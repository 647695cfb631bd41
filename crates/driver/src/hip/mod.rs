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

pub use sys::{use_compiler, use_library};

use crate::streams::sys::{Api, Module, Physical, Shared};
use crate::streams::{StreamDevice, Vendor};
use elinvar_core::{Error, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::llvm::{self, Arch, TRIPLE};
use std::sync::Arc;

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
pub type Hip = StreamDevice<Amd>;

/// What only a device of AMD's has: an architecture.
#[derive(Clone, Copy, Debug)]
pub struct Amd {
    arch: Arch,
}

impl Hip {
    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.vendor.arch
    }
}

impl Vendor for Amd {
    const NAME: &'static str = "rocm";

    fn physical() -> Result<Vec<Physical>> {
        sys::physical()
    }
    fn open(physical: &Physical) -> Result<(&'static Api, Amd)> {
        let (api, arch) = sys::open(physical)?;
        Ok((api, Amd { arch }))
    }
    fn compile(&self, shared: &Arc<Shared>, kernel: &Kernel) -> Result<Module> {
        let text = text(kernel, self.arch)?;
        let isa = format!("{TRIPLE}--{}", shared.physical.isa);
        let compiled = || sys::comgr()?.compile(&kernel.name, &text, &isa);
        let mut module = Module::new(shared, kernel, &text, compiled)?;
        module.group_counts = 3;
        Ok(module)
    }
}
