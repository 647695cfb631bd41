//! The devices of a GPU driver, by number and as a list.

use crate::any::Device;
use crate::device::DeviceInfo;
use crate::kinds::Found;
#[cfg(feature = "webgpu")]
use crate::probe::probe_async;
use crate::probe::{Exactness, probe};
use crate::properties::{MatrixUnit, Properties};
use elinvar_core::{DType, Error, ErrorKind, Result, Settings};
use elinvar_driver::{Driver, Info, Kind};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_kernel::ir::Elem;

/// A driver's devices as this build's.
type Wrap<D> = fn(GpuDevice<D>) -> Device;

pub fn open<D: Driver>(number: usize, settings: &Settings, wrap: Wrap<D>) -> Result<Device> {
    GpuDevice::build(number, settings).map(wrap)
}

/// The driver's devices on this machine; without a driver, or of one that is not usable, the
/// reason.
pub fn find<D: Driver>(wrap: Wrap<D>) -> Found {
    let all = match D::list() {
        Ok(all) => all,
        Err(e) => return Found { devices: Vec::new(), missing: vec![e] },
    };
    let mut found = Found { devices: Vec::new(), missing: Vec::new() };
    for number in 0..all.len() {
        match GpuDevice::<D>::open(number).and_then(|device| look(device, wrap)) {
            Ok(device) => found.devices.push(device),
            Err(e) => found.missing.push(numbered::<D>(number, &e)),
        }
    }
    found
}

/// The first discrete GPU; `None` if there is none.
pub fn card<D: Driver>(wrap: Wrap<D>) -> Result<Option<DeviceInfo>> {
    let all = match D::list() {
        Ok(all) => all,
        Err(e) if is_none(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    let Some(number) = all.iter().position(|i| i.kind == Kind::Discrete) else { return Ok(None) };
    match GpuDevice::<D>::open(number) {
        Ok(device) => look(device, wrap).map(Some),
        // A device that lacks a feature that every kernel needs is not usable.
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        Err(e) => Err(e),
    }
}

/// An opened device, described, and probed without blocking.
#[cfg(feature = "webgpu")]
pub async fn look_async<D: Driver>(device: GpuDevice<D>, wrap: Wrap<D>) -> Result<DeviceInfo> {
    let exactness = probe_async::<Gpu<D>>(&device).await?;
    described(device, exactness, wrap)
}

/// An opened device, described and probed.
fn look<D: Driver>(device: GpuDevice<D>, wrap: Wrap<D>) -> Result<DeviceInfo> {
    let exactness = probe::<Gpu<D>>(&device)?;
    described(device, exactness, wrap)
}

fn described<D: Driver>(device: GpuDevice<D>, exactness: Exactness, wrap: Wrap<D>) -> Result<DeviceInfo> {
    Ok(DeviceInfo {
        description: describe(device.info()?),
        properties: properties(device.info()?),
        exactness,
        device: wrap(device),
    })
}

/// An error of one device, which its sentence names by the driver alone.
fn numbered<D: Driver>(number: usize, e: &Error) -> Error {
    let rest = e.message().strip_prefix(D::NAME).unwrap_or(e.message());
    let rest = rest.strip_prefix(&format!(":{number}")).unwrap_or(rest);
    let rest = rest.strip_prefix(": ").unwrap_or(rest);
    Error::new(e.kind(), format!("{}:{number}: {rest}", D::NAME))
}

/// Is the driver missing or too old? Not an error for a caller that can use another device.
fn is_none(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::DriverMissing | ErrorKind::Unsupported)
}

/// What a GPU's driver tells.
fn properties(i: &Info) -> Properties {
    let matrix_units = i.mma_shapes.iter().filter_map(|u| {
        let dtype = DType::ALL.into_iter().find(|&dtype| Elem::from(dtype) == u.elem)?;
        Some(MatrixUnit { dtype, shape: u.shape.map(u32::from) })
    });
    Properties {
        name: i.name.clone(),
        class: i.kind.to_string(),
        driver: i.driver.clone(),
        memory: i.memory,
        largest_allocation: Some(i.largest),
        compute_units: i.compute_units,
        subgroup: i.subgroup,
        parallel_streams: i.queues,
        shared_memory: Some(i.shared),
        matrix_units: matrix_units.collect(),
    }
}

/// A GPU in one line.
fn describe(i: &Info) -> String {
    let [low, high] = i.subgroup;
    let lanes = if low == high { low.to_string() } else { format!("{low} to {high}") };
    let memory = i.memory.map_or_else(String::new, |m| format!(" {:.1} GiB,", m as f64 / f64::from(1 << 30)));
    let has = [("f64", i.f64), ("i64", i.i64), ("f16", i.half), ("bytes", i.bytes)];
    let has: Vec<&str> = has.iter().filter(|(_, has)| *has).map(|(word, _)| *word).collect();
    format!("{}, {},{memory} {lanes} lanes, {}; {}", i.name, i.kind, has.join(" "), i.driver)
}
