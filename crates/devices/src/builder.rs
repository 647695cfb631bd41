//! `Device::builder`: a device with settings.

use crate::any::Device;
use crate::device::Name;
use crate::kinds::{cuda, metal, rocm, vulkan, webgpu};
use elinvar_core::{Autotune, DeviceKind, Error, Precision, Result, Settings, Validation};
use elinvar_cpu::CpuDevice;
use std::fmt::Display;
use std::path::PathBuf;

/// A device to be opened with settings. What is not set is the environment's, or else the
/// device's; a setting that the device has not is an error that names those it has.
///
/// ```
/// use elinvar_devices::Device;
/// let d = Device::builder("cpu").threads(2).isa("plain").build()?;
/// assert_eq!(d.to_string(), "cpu");
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a device is there when it is built"]
pub struct DeviceBuilder {
    name: String,
    settings: Settings,
}

impl Device {
    /// A device of this name, as [`Device::parse`] takes it, to be opened with settings.
    pub fn builder(name: impl Into<String>) -> DeviceBuilder {
        DeviceBuilder { name: name.into(), settings: Settings::default() }
    }
}

impl DeviceBuilder {
    /// All settings at once, in place of those so far.
    pub fn settings(self, settings: Settings) -> DeviceBuilder {
        DeviceBuilder { settings, ..self }
    }
    fn with(mut self, set: impl FnOnce(&mut Settings)) -> DeviceBuilder {
        set(&mut self.settings);
        self
    }
    /// Bytes that tensors may hold at most; an allocation beyond them fails with `OutOfMemory`. The
    /// processor's devices share one memory, so theirs is one limit for all of a process.
    pub fn memory_limit(self, bytes: u64) -> DeviceBuilder {
        self.with(|s| s.memory_limit = Some(bytes))
    }
    /// Bytes that the memory pool takes when the device is opened, and keeps.
    pub fn pool_initial(self, bytes: u64) -> DeviceBuilder {
        self.with(|s| s.pool_initial = Some(bytes))
    }
    /// Bytes that the pool takes from the device at most, in use or kept for the next tensors.
    pub fn pool_maximum(self, bytes: u64) -> DeviceBuilder {
        self.with(|s| s.pool_maximum = Some(bytes))
    }
    /// Bytes by which the pool grows at least when it has no room left.
    pub fn pool_growth(self, bytes: u64) -> DeviceBuilder {
        self.with(|s| s.pool_growth = Some(bytes))
    }
    /// Threads that share work, from 1. No bit depends on it.
    pub fn threads(self, threads: usize) -> DeviceBuilder {
        self.with(|s| s.threads = Some(threads))
    }
    /// The instruction set: an `Isa`, or its name (`plain`, `avx2`, `avx512`, `neon`). No bit
    /// depends on it.
    pub fn isa(self, isa: impl Display) -> DeviceBuilder {
        self.with(|s| s.isa = Some(isa.to_string()))
    }
    /// Elements from which maps in a row take one pass over memory. No bit depends on it.
    pub fn fuse_from(self, elements: usize) -> DeviceBuilder {
        self.with(|s| s.fuse_from = Some(elements))
    }
    /// Bytes of weights that may be packed unasked. No bit depends on it.
    pub fn pack_up_to(self, bytes: usize) -> DeviceBuilder {
        self.with(|s| s.pack_up_to = Some(bytes))
    }
    /// How products are computed where no scope says it.
    pub fn precision(self, precision: Precision) -> DeviceBuilder {
        self.with(|s| s.precision = Some(precision))
    }
    /// Are kernels and tiles tried, and the fastest kept? Changes bits of `Precision::Fast` only.
    pub fn autotune(self, autotune: impl Into<Autotune>) -> DeviceBuilder {
        self.with(|s| s.autotune = Some(autotune.into()))
    }
    /// The file of what tuning found. It is read also if nothing is tried.
    pub fn tune_cache(self, file: impl Into<PathBuf>) -> DeviceBuilder {
        self.with(|s| s.tune_cache = Some(file.into()))
    }
    /// What Vulkan's validation layer watches, for all Vulkan devices of the process; to be asked
    /// for before the first of them is used, also if this device cannot be opened then.
    pub fn validation(self, validation: Validation) -> DeviceBuilder {
        self.with(|s| s.validation = Some(validation))
    }

    /// Opens the device. A GPU is opened once in a process, and all that name it share it: settings
    /// of its pool and tuning must then be those it was opened with. Threads, instruction set,
    /// sizes of fusion and packing, and precision are those of the handle that this gives.
    ///
    /// # Errors
    /// `Unsupported` for a setting that the device has not; `InvalidArgument` if settings
    /// contradict each other, the environment's, the device's size or those that it is open with,
    /// or if a variable cannot be read; `OutOfMemory` if the pool cannot be had; those of
    /// [`Device::parse`].
    pub fn build(self) -> Result<Device> {
        let settings = self.settings;
        match Name::parse(&self.name)? {
            Name::Best => Err(Error::argument(
                "best: a builder needs the name of a device, such as cpu, cuda:0 or vulkan:0",
            )),
            Name::Cpu => CpuDevice::build(&settings).map(Device::Cpu),
            Name::Reference => {
                settings.complete(DeviceKind::Reference)?;
                Ok(Device::reference())
            }
            Name::Cuda(number) => cuda::open(number, &settings),
            Name::Rocm(number) => rocm::open(number, &settings),
            Name::WebGpu(number) => webgpu::open(number, &settings),
            Name::Metal(number) => metal::open(number, &settings),
            Name::Vulkan(number) => {
                // What can be seen to be wrong is refused before Vulkan is started.
                settings.clone().complete(DeviceKind::Vulkan)?;
                if let Some(wanted) = settings.validation {
                    vulkan_validation(wanted)?;
                }
                vulkan::open(number, &settings)
            }
        }
    }
}

#[cfg(feature = "vulkan")]
fn vulkan_validation(wanted: Validation) -> Result<()> {
    elinvar_driver::vulkan::use_validation(wanted)
}
/// Opening the device says that this build has none.
#[cfg(not(feature = "vulkan"))]
fn vulkan_validation(_: Validation) -> Result<()> {
    Ok(())
}
