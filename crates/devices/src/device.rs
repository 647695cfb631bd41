//! Naming, choosing and listing devices.

use crate::any::Device;
use crate::probe::{Exactness, probe};
use elinvar_core::{Error, ErrorKind, Result};
use elinvar_reference::{Reference, ReferenceDevice};

impl Device {
    /// The scalar reference: the definition of every result. Slow, and always there.
    pub fn reference() -> Device {
        Device::Reference(ReferenceDevice)
    }

    /// The device of this name, as on a command line: `reference`, or `best`.
    ///
    /// # Errors
    /// `UnknownDevice` with the names that exist.
    pub fn parse(name: &str) -> Result<Device> {
        match name.trim().to_ascii_lowercase().as_str() {
            "best" => Ok(Device::best()),
            "reference" => Ok(Device::reference()),
            _ => Err(Error::new(
                ErrorKind::UnknownDevice,
                format!("there is no device called \"{name}\"; this build has: reference, best"),
            )),
        }
    }

    /// The fastest device of this machine that gives exact results.
    pub fn best() -> Device {
        Device::reference()
    }
}

impl Default for Device {
    fn default() -> Self {
        Device::best()
    }
}

impl std::str::FromStr for Device {
    type Err = Error;
    fn from_str(name: &str) -> Result<Device> {
        Device::parse(name)
    }
}

/// What is known of a device.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The device.
    pub device: Device,
    /// One line on what it is.
    pub description: String,
    /// Whether its results are those of the reference.
    pub exactness: Exactness,
}

/// All devices of this machine that this build can use, the fastest first. Each is probed.
///
/// # Errors
/// What a device reports when it is probed.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    Ok(vec![DeviceInfo {
        device: Device::reference(),
        description: "plain loops on one CPU thread; the definition of every result".into(),
        exactness: probe::<Reference>(&ReferenceDevice)?,
    }])
}
