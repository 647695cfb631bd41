//! Vulkan: any GPU of any vendor, and software devices.
//!
//! The loader is looked for at run time, so a program starts without it, and says what is missing when a device is asked
//! for. A kernel is emitted as SPIR-V for this very device: what the device's arithmetic cannot do exactly, as probed when
//! it is opened, is built from what it can.

mod probe;
mod sys;

pub use sys::{Mark, Memory, Pipeline as Module, validation_messages};

use crate::{Driver, Info, Slice};
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_kernel::Kernel;
use elinvar_kernel::emit::spirv;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::Type;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use sys::Shared;

/// The cache of pipelines is written to its file when it has grown by this part: a program of many kernels writes it some
/// twenty times, and one of a few does write it.
const SAVE_AFTER: u32 = 4;

/// An opened Vulkan device.
pub struct Vulkan {
    shared: Arc<Shared>,
    arithmetic: spirv::Device,
    /// Pipelines that were made, and so many when the cache was written.
    pipelines: [AtomicU32; 2],
}

impl fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vulkan({})", self.info().name)
    }
}

impl Vulkan {
    /// What the device's arithmetic does, as its properties say and as it was probed.
    pub fn arithmetic(&self) -> &spirv::Device {
        &self.arithmetic
    }

    /// That the device has what a kernel needs.
    fn check(&self, kernel: &Kernel) -> Result<()> {
        let (needs, has) = (kernel.features(), self.info());
        let lacks = |what: String| {
            Err(Error::unsupported(format!("vulkan: {}: {} has no {what}", kernel.name, has.name)))
        };
        if needs.f64 && !has.f64 {
            return lacks("64-bit floats".into());
        }
        if needs.i64 && !has.i64 {
            return lacks("64-bit integers".into());
        }
        if needs.half && !has.half {
            return lacks("16-bit floats".into());
        }
        if needs.bytes && !has.bytes {
            return lacks("access to bytes".into());
        }
        if needs.shared > has.shared {
            return lacks(format!("{} bytes of shared memory", needs.shared));
        }
        if needs.invocations > has.invocations {
            return lacks(format!("workgroups of {} invocations", needs.invocations));
        }
        if kernel.buffers.len() as u32 > has.buffers {
            return lacks(format!("kernels of {} buffers", kernel.buffers.len()));
        }
        let fragment = |t: &Type| match t {
            Type::Fragment(f) if !has.units.iter().any(|u| u.fragment(f.role) == *f) => Some(*f),
            Type::Fragment(_) | Type::Vector(..) => None,
        };
        if let Some(f) = kernel.values.iter().find_map(fragment) {
            return lacks(f.to_string());
        }
        match kernel.subgroup {
            Some(lanes) if has.subgroup != [lanes; 2] => lacks(format!("subgroups of {lanes} lanes")),
            Some(_) | None => Ok(()),
        }
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        // What was given to it is done when its memory is gone.
        drop(self.shared.wait());
    }
}

impl Driver for Vulkan {
    const NAME: &'static str = "vulkan";
    type Memory = Memory;
    type Module = Module;
    type Mark = Mark;

    fn list() -> Result<Vec<Info>> {
        Ok(sys::physical()?.into_iter().map(|p| p.info).collect())
    }
    fn open(number: usize) -> Result<Vulkan> {
        let all = sys::physical()?;
        let count = all.len();
        let physical = all.into_iter().nth(number).ok_or_else(|| {
            Error::new(
                ErrorKind::UnknownDevice,
                format!("there is no vulkan:{number}; this machine has vulkan:0 to vulkan:{}", count - 1),
            )
        })?;
        let arithmetic = physical.floats;
        let shared = Arc::new(Shared::open(physical)?);
        let mut device = Vulkan { shared, arithmetic, pipelines: [const { AtomicU32::new(0) }; 2] };
        device.arithmetic = probe::probe(&device)?;
        Ok(device)
    }
    fn info(&self) -> &Info {
        &self.shared.physical.info
    }
    fn allocate(&self, bytes: u64) -> Result<Memory> {
        Memory::new(&self.shared, bytes)
    }
    fn compile(&self, kernel: &Kernel) -> Result<Module> {
        self.check(kernel)?;
        let words = spirv::emit(kernel, &self.arithmetic)
            .map_err(|e| Error::unsupported(format!("vulkan: {e} ({})", self.info().name)))?;
        let module = Module::new(&self.shared, kernel, &words)?;
        let [made, saved] = &self.pipelines;
        let all = made.fetch_add(1, Relaxed) + 1;
        if (all - saved.load(Relaxed).min(all)) * SAVE_AFTER >= all {
            saved.store(all, Relaxed);
            self.shared.save_cache();
        }
        Ok(module)
    }
    fn launch(
        &self,
        module: &Module,
        buffers: &[Slice<'_, Self>],
        launch: &Launch,
        numbers: Option<&[u8]>,
    ) -> Result<()> {
        self.shared.queue().launch(&self.shared, module, buffers, launch, numbers)
    }
    fn write(&self, to: Slice<'_, Self>, bytes: &[u8]) -> Result<()> {
        self.shared.queue().write(&self.shared, to, bytes)
    }
    fn copy(&self, from: Slice<'_, Self>, to: Slice<'_, Self>) -> Result<()> {
        self.shared.queue().copy(&self.shared, from, to)
    }
    fn read(&self, from: Slice<'_, Self>, bytes: &mut [u8]) -> Result<()> {
        self.shared.read(from, bytes)
    }
    fn wait(&self) -> Result<()> {
        self.shared.wait()
    }
    fn mark(&self) -> Result<Mark> {
        Mark::new(&self.shared)
    }
    fn between(&self, from: &Mark, to: &Mark) -> Result<Duration> {
        from.until(to)
    }
}
