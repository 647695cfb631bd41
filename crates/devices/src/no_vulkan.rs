//! In place of Vulkan's devices, in a build without the feature `vulkan`.

use crate::{Device, DeviceInfo};
use elinvar_core::{Error, Result};

pub fn open(_: usize) -> Result<Device> {
    Err(Error::unsupported(
        "this build has no Vulkan; it comes with the feature `vulkan`, which is on by default",
    ))
}

pub fn devices() -> Result<Vec<DeviceInfo>> {
    Ok(Vec::new())
}
