//! Memory of the device, and its bytes on the host while they are under way.

#![allow(unsafe_code, reason = "functions of a C library")]

use emulated_gpu::client::Driver;
use std::ffi::c_void;
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::OnceLock;

/// A stream that does not wait for the one that has no name.
const NON_BLOCKING: u32 = 1;

/// A part of the device's memory that is sent or received.
pub struct Staged {
    at: u64,
    pub bytes: Vec<u8>,
    sends: bool,
}

fn driver() -> Result<(&'static Driver, *mut c_void), String> {
    static STREAM: OnceLock<usize> = OnceLock::new();
    let driver = Driver::get().ok_or("no CUDA driver")?;
    if STREAM.get().is_none() {
        let mut stream = null_mut();
        // SAFETY: the place for the result is valid.
        cuda(unsafe { (driver.create_stream)(&raw mut stream, NON_BLOCKING) }, "a stream")?;
        STREAM.get_or_init(|| stream.expose_provenance());
    }
    Ok((driver, STREAM.get().map_or(null_mut(), |stream| with_exposed_provenance_mut(*stream))))
}

fn cuda(status: i32, what: &str) -> Result<(), String> {
    match status {
        0 => Ok(()),
        // CUDA_ERROR_INVALID_CONTEXT.
        201 => Err(format!("{what}: no device is the thread's")),
        other => Err(format!("{what}: CUDA's error {other}")),
    }
}

fn down(at: u64, length: usize) -> Result<Vec<u8>, String> {
    let ((driver, stream), mut bytes) = (driver()?, vec![0u8; length]);
    // SAFETY: there is room for so many bytes, and this is waited for.
    unsafe {
        cuda((driver.down)(bytes.as_mut_ptr().cast(), at, length, stream), "reading device memory")?;
        cuda((driver.wait)(stream), "reading device memory")?;
    }
    Ok(bytes)
}

impl Staged {
    /// What is there now, to be sent.
    pub fn to_send(at: u64, length: usize) -> Result<Staged, String> {
        Ok(Staged { at, bytes: down(at, length)?, sends: true })
    }
    /// Room for what is received.
    pub fn to_receive(at: u64, length: usize) -> Result<Staged, String> {
        // Whether a device is the thread's, and there is such memory.
        Ok(Staged { at, bytes: down(at, length)?, sends: false })
    }
    /// The message is done.
    pub fn finish(&self) -> Result<(), String> {
        let Staged { at, bytes, sends } = self;
        if *sends {
            return match down(*at, bytes.len()) {
                Ok(now) if now == *bytes => Ok(()),
                Ok(_) => Err(format!("device memory at {at:#x} was changed while it was sent")),
                Err(why) => Err(format!("{why}, of what was being sent")),
            };
        }
        let (driver, stream) = driver()?;
        // SAFETY: the bytes are there, and this is waited for.
        unsafe {
            cuda((driver.up)(*at, bytes.as_ptr().cast(), bytes.len(), stream), "writing device memory")?;
            cuda((driver.wait)(stream), "writing device memory")
        }
    }
}
