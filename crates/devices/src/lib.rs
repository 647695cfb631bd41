//! Which devices there are, and `Any`: the backend that is chosen at run time.
//!
//! [`Any`] is an enum over the backends of this build. It implements
//! [`Backend`](elinvar_ops::Backend) by matching on the device once per kind of work, so
//! `Tensor<Any>` runs everything that `Tensor<Reference>` does.

mod any;
mod builder;
mod device;
#[cfg(any(
    feature = "cuda",
    feature = "rocm",
    feature = "vulkan",
    feature = "webgpu",
    all(feature = "metal", target_vendor = "apple")
))]
mod gpu;
mod kinds;
mod probe;
mod properties;

pub use any::{Any, AnyBuffer, Device};
pub use builder::DeviceBuilder;
pub use device::{DeviceInfo, Machine, devices, machine};
pub use probe::{Exactness, probe};
pub use properties::{MatrixUnit, Properties};

/// The messages of Vulkan's validation layer so far, if `ELINVAR_VULKAN_VALIDATION=1` enabled it.
#[cfg(feature = "vulkan")]
pub use elinvar_driver::vulkan::validation_messages;
