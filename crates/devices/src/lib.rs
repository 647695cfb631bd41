//! Which devices there are, and `Any`: the backend that is chosen at run time.
//!
//! [`Any`] is an enum over the backends of this build. It implements [`Backend`](elinvar_ops::Backend) by matching
//! on the device once per kind of work, so `Tensor<Any>` runs everything that `Tensor<Reference>` does.

mod any;
mod device;
mod probe;
#[cfg_attr(not(feature = "vulkan"), path = "no_vulkan.rs")]
mod vulkan;

pub use any::{Any, AnyBuffer, Device};
pub use device::{DeviceInfo, devices};
pub use probe::{Exactness, probe};

/// What Vulkan's validation layer has said so far, if `ELINVAR_VULKAN_VALIDATION=1` asked it to watch.
#[cfg(feature = "vulkan")]
pub use elinvar_driver::vulkan::validation_messages;
