//! Results as errors. The numbers of `CUresult` and of `hipError_t` are the same.

use super::api::Api;
use super::functions::ErrorName;
use elinvar_core::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_int};

/// A `CUresult` or `hipError_t`.
pub type Status = c_int;

/// What kind of error a result is. Those that nothing works after in this process are a lost
/// device.
fn kind(status: Status) -> ErrorKind {
    match status {
        // OUT_OF_MEMORY
        2 => ErrorKind::OutOfMemory,
        // STUB_LIBRARY, NO_DEVICE, SYSTEM_DRIVER_MISMATCH, COMPAT_NOT_SUPPORTED_ON_DEVICE
        34 | 100 | 803 | 804 => ErrorKind::DriverMissing,
        // INVALID_DEVICE
        101 => ErrorKind::UnknownDevice,
        // DEINITIALIZED, DEVICE_UNAVAILABLE, INVALID_CONTEXT, ECC_UNCORRECTABLE,
        // NVLINK_UNCORRECTABLE
        4 | 46 | 201 | 214 | 220 => ErrorKind::DeviceLost,
        // ILLEGAL_ADDRESS, LAUNCH_TIMEOUT, CONTEXT_IS_DESTROYED, ASSERT
        700 | 702 | 709 | 710 => ErrorKind::DeviceLost,
        // HARDWARE_STACK_ERROR, ILLEGAL_INSTRUCTION, MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE,
        // INVALID_PC, LAUNCH_FAILED
        714..=719 => ErrorKind::DeviceLost,
        // UNKNOWN
        999 => ErrorKind::DeviceLost,
        _ => ErrorKind::Unsupported,
    }
}

impl Api {
    /// What the driver calls a result.
    pub fn name_of(&self, status: Status) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the place for the result is valid; the text belongs to the library and stays.
        unsafe {
            let said = match self.table.error_name {
                ErrorName::Put(f) => f(status, &raw mut text),
                ErrorName::Returned(f) => {
                    text = f(status);
                    0
                }
            };
            if said == 0 && !text.is_null() {
                return format!("{} ({status})", CStr::from_ptr(text).to_string_lossy());
            }
        }
        format!("error {status}")
    }
    /// What was tried, and what the driver said of it.
    ///
    /// # Errors
    /// If it is not success.
    pub fn check(&self, status: Status, what: impl FnOnce() -> String) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        Err(Error::new(kind(status), format!("{}: {}: {}", self.driver, what(), self.name_of(status))))
    }
    /// The driver's name before a sentence.
    pub fn say(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what}", self.driver)
    }
}
