//! Vulkan's devices, by number and in a list.

use crate::{Device, DeviceInfo, probe};
use elinvar_core::{ErrorKind, Result};
use elinvar_driver::{Driver, Info, Vulkan};
use elinvar_gpu::GpuDevice;

pub fn open(number: usize) -> Result<Device> {
    GpuDevice::open(number).map(Device::Vulkan)
}

/// What this machine has; nothing without a driver.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let count = match Vulkan::list() {
        Ok(all) => all.len(),
        Err(e) if e.kind() == ErrorKind::DriverMissing => 0,
        Err(e) => return Err(e),
    };
    let mut all = Vec::new();
    for number in 0..count {
        let device = match GpuDevice::open(number) {
            Ok(device) => device,
            // One that lacks what every kernel needs is no device of ours.
            Err(e) if e.kind() == ErrorKind::Unsupported => continue,
            Err(e) => return Err(e),
        };
        all.push(DeviceInfo {
            description: describe(device.info()?),
            exactness: probe::<elinvar_gpu::Vulkan>(&device)?,
            device: Device::Vulkan(device),
        });
    }
    Ok(all)
}

/// A GPU in one line.
fn describe(i: &Info) -> String {
    let [low, high] = i.subgroup;
    let lanes = if low == high { low.to_string() } else { format!("{low} to {high}") };
    let has = [("f64", i.f64), ("i64", i.i64), ("f16", i.half), ("bytes", i.bytes)];
    let has: Vec<&str> = has.iter().filter(|(_, has)| *has).map(|(word, _)| *word).collect();
    format!(
        "{}, {}, {:.1} GiB, {lanes} lanes, {}; {}",
        i.name,
        i.kind,
        i.memory as f64 / f64::from(1 << 30),
        has.join(" "),
        i.driver
    )
}
