//! Vulkan's results as errors.

use ash::vk;
use elinvar_core::{Error, ErrorKind};

/// What was tried, and what Vulkan said of it.
pub fn error(what: &str, e: vk::Result) -> Error {
    let kind = match e {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_POOL_MEMORY
        | vk::Result::ERROR_FRAGMENTED_POOL
        | vk::Result::ERROR_TOO_MANY_OBJECTS => ErrorKind::OutOfMemory,
        vk::Result::ERROR_DEVICE_LOST => ErrorKind::DeviceLost,
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => ErrorKind::DriverMissing,
        _ => ErrorKind::Unsupported,
    };
    Error::new(kind, format!("vulkan: {what}: {e}"))
}
