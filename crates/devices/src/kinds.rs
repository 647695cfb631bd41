//! The kinds of GPU devices, whether this build has them or not.

use crate::any::Device;
use crate::device::DeviceInfo;
#[cfg(any(
    feature = "cuda",
    feature = "rocm",
    feature = "vulkan",
    feature = "webgpu",
    all(feature = "metal", target_vendor = "apple")
))]
use crate::gpu;
use elinvar_core::{Error, Result, Settings};

/// The devices of one kind on this machine.
pub struct Found {
    pub devices: Vec<DeviceInfo>,
    /// Why there is no device, or why one is not usable.
    pub missing: Vec<Error>,
}

macro_rules! kind {
    ($kind:ident, $feature:literal, $Variant:ident, $Name:literal, $default:literal) => {
        kind!($kind, (feature = $feature), $Variant, concat!(
            $feature,
            ": this build has no ",
            $Name,
            "; it comes with the feature `",
            $feature,
            "`, which is ",
            $default
        ));
    };
    // One that is not of all systems.
    ($kind:ident, ($($when:tt)*), $Variant:ident, $absent:expr) => {
        pub mod $kind {
            use super::*;

            #[cfg($($when)*)]
            pub fn open(number: usize, settings: &Settings) -> Result<Device> {
                gpu::open(number, settings, Device::$Variant)
            }
            #[cfg($($when)*)]
            pub fn find() -> Found {
                gpu::find(Device::$Variant)
            }
            #[cfg($($when)*)]
            pub fn card() -> Result<Option<DeviceInfo>> {
                gpu::card(Device::$Variant)
            }

            #[cfg(not($($when)*))]
            pub fn open(_: usize, _: &Settings) -> Result<Device> {
                Err(absent())
            }
            #[cfg(not($($when)*))]
            pub fn find() -> Found {
                Found { devices: Vec::new(), missing: vec![absent()] }
            }
            #[cfg(not($($when)*))]
            pub fn card() -> Result<Option<DeviceInfo>> {
                Ok(None)
            }
            #[cfg(not($($when)*))]
            fn absent() -> Error {
                Error::unsupported($absent)
            }
        }
    };
}

kind!(cuda, "cuda", Cuda, "CUDA", "on by default");
kind!(rocm, "rocm", Rocm, "ROCm", "on by default");
kind!(vulkan, "vulkan", Vulkan, "Vulkan", "on by default");
kind!(webgpu, "webgpu", WebGpu, "WebGPU", "off by default");

/// The first WebGPU device, opened and probed without blocking.
#[cfg(feature = "webgpu")]
pub async fn webgpu_async() -> Result<DeviceInfo> {
    elinvar_driver::WebGpu::prepare().await?;
    gpu::look_async(elinvar_gpu::GpuDevice::open(0)?, Device::WebGpu).await
}
/// The first WebGPU device, opened and probed without blocking.
#[cfg(not(feature = "webgpu"))]
pub async fn webgpu_async() -> Result<DeviceInfo> {
    // Which says that it is not there.
    webgpu::open(0, &Settings::default()).map(|_| unreachable!("this build has none"))
}
kind!(
    metal,
    (all(feature = "metal", target_vendor = "apple")),
    Metal,
    if cfg!(target_vendor = "apple") {
        "metal: this build has no Metal; it comes with the feature `metal`, which is on by default"
    } else {
        "metal: only on macOS, iOS and Apple's other systems; other systems' GPUs are cuda:N, vulkan:N and webgpu:N"
    }
);
