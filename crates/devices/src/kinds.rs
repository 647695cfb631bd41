//! The kinds of GPU devices, whether this build has them or not.

use crate::any::Device;
use crate::device::DeviceInfo;
#[cfg(any(feature = "cuda", feature = "vulkan", feature = "webgpu"))]
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
        pub mod $kind {
            use super::*;

            #[cfg(feature = $feature)]
            pub fn open(number: usize, settings: &Settings) -> Result<Device> {
                gpu::open(number, settings, Device::$Variant)
            }
            #[cfg(feature = $feature)]
            pub fn find() -> Found {
                gpu::find(Device::$Variant)
            }
            #[cfg(feature = $feature)]
            pub fn card() -> Result<Option<DeviceInfo>> {
                gpu::card(Device::$Variant)
            }

            #[cfg(not(feature = $feature))]
            pub fn open(_: usize, _: &Settings) -> Result<Device> {
                Err(absent())
            }
            #[cfg(not(feature = $feature))]
            pub fn find() -> Found {
                Found { devices: Vec::new(), missing: vec![absent()] }
            }
            #[cfg(not(feature = $feature))]
            pub fn card() -> Result<Option<DeviceInfo>> {
                Ok(None)
            }
            #[cfg(not(feature = $feature))]
            fn absent() -> Error {
                Error::unsupported(concat!(
                    $feature,
                    ": this build has no ",
                    $Name,
                    "; it comes with the feature `",
                    $feature,
                    "`, which is ",
                    $default
                ))
            }
        }
    };
}

kind!(cuda, "cuda", Cuda, "CUDA", "on by default");
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
