//! The functions of the driver's library, as C callers see them.
//!
//! Callers guarantee the pointers, as NVIDIA's manual requires: pointers to results are valid,
//! strings end with 0, arrays have the stated number of elements. That is the argument for every
//! `unsafe` block here that has no other.

#![allow(
    missing_docs,
    reason = "the names and arguments are NVIDIA's, who describes them in the driver API's manual"
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use crate::settings::{MOST_SHARED, Settings};
use emulated_gpu::device::Device;
use emulated_gpu::driver_functions;
use emulated_gpu::sys::functions::{Driver, give_text, status};
use std::cell::Cell;

static DRIVER: Driver = Driver::new(Settings::properties);

thread_local! {
    /// The context of this thread: 0 or the index of a device, plus 1.
    static CONTEXT: Cell<usize> = const { Cell::new(0) };
}

/// Requires a context, and a device without a sticky error.
pub(super) fn within(f: impl FnOnce(&mut Device) -> Result<(), Error>) -> Status {
    if CONTEXT.get() == 0 {
        return Error::INVALID_CONTEXT.0;
    }
    DRIVER.with(|d| {
        d.check()?;
        f(d)
    })
}

driver_functions! {
    within;
    streams: cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize;
    events: cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventQuery cuEventSynchronize
        cuStreamWaitEvent cuEventElapsedTime;
    graphs: cuStreamBeginCapture_v2 cuStreamEndCapture cuGraphInstantiateWithFlags cuGraphLaunch
        cuGraphDestroy cuGraphExecDestroy;
    memory: cuMemAlloc_v2 cuMemFree_v2 cuMemAllocAsync cuMemFreeAsync cuMemHostAlloc cuMemFreeHost;
    copies: cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2;
    modules: cuModuleUnload cuModuleGetFunction cuLaunchKernel;
    pools: Settings::get().pools;
}

/// Is the device only emulated? 1 unless it passes as a discrete GPU.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_emulated_cuda() -> c_int {
    c_int::from(Settings::get().software)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> Status {
    if flags != 0 {
        return Error::INVALID_VALUE.0;
    }
    if Settings::get().devices == 0 {
        return Error::NO_DEVICE.0;
    }
    DRIVER.start();
    0
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    status(give(version, Settings::get().version))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    DRIVER.with(|_| give(count, Settings::get().devices))
}
fn known(number: c_int) -> Result<(), Error> {
    if (0..Settings::get().devices).contains(&number) { Ok(()) } else { Err(Error::INVALID_DEVICE) }
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    DRIVER.with(|_| {
        known(ordinal)?;
        give(device, ordinal)
    })
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        let text = format!("emulated sm_{}", Settings::get().capability);
        // SAFETY: the caller has `len` bytes there.
        unsafe { give_text(name, usize::try_from(len).unwrap_or(0), &text) }
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        give(bytes, Settings::get().memory as usize)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        let capability = Settings::get().capability as c_int;
        give(
            value,
            match attribute {
                // Threads of a workgroup; its sides; the sides of a grid.
                1..=3 => 1024,
                4 => 64,
                5 => i32::MAX,
                6 | 7 => 65535,
                // Shared memory of a workgroup; lanes of a warp.
                8 => MOST_SHARED as c_int,
                97 => Settings::get().shared() as c_int,
                10 => 32,
                // Multiprocessors: an H100's, so that tiles are chosen as for one.
                16 => 132,
                // Part of the processor; unified addresses.
                18 => 0,
                41 => 1,
                75 => capability / 10,
                76 => capability % 10,
                115 => c_int::from(Settings::get().pools),
                _ => return Err(Error::INVALID_VALUE),
            },
        )
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        give(context, (device as usize + 1) as Handle)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Status {
    DRIVER.with(|_| known(device))
}
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Status {
    DRIVER.with(|_| {
        if context as usize > Settings::get().devices as usize {
            return Err(Error::INVALID_CONTEXT);
        }
        CONTEXT.set(context as usize);
        Ok(())
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status {
    within(|d| {
        give(free, d.free_bytes() as usize)?;
        give(total, Settings::get().memory as usize)
    })
}

// Memory and errors

/// All devices share one memory here.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyPeerAsync(
    to: u64,
    to_context: Handle,
    from: u64,
    from_context: Handle,
    bytes: usize,
    s: Handle,
) -> Status {
    within(|d| {
        let contexts = 1..=Settings::get().devices as usize;
        if ![to_context, from_context].iter().all(|&c| contexts.contains(&(c as usize))) {
            return Err(Error::INVALID_CONTEXT);
        }
        d.push(s as u64, Operation::Work(Work::Across { from, to, bytes: bytes as u64 }))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) -> Status {
    within(|d| {
        let bytes = u32::try_from(value).map_err(|_| Error::INVALID_VALUE)?;
        match attribute {
            // Bytes of dynamic shared memory.
            8 => d.allow_shared(function as u64, bytes),
            _ => Err(Error::INVALID_VALUE),
        }
    })
}

/// The name in NVIDIA's header.
fn error_name(error: Error) -> Option<&'static CStr> {
    Some(match error {
        Error(0) => c"CUDA_SUCCESS",
        Error::INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        Error::OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        Error::NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        Error::NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        Error::INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        Error::INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
        Error::INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        Error::INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        Error::UNSUPPORTED_PTX_VERSION => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        Error::INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
        Error::NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        Error::NOT_READY => c"CUDA_ERROR_NOT_READY",
        Error::ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        Error::MISALIGNED_ADDRESS => c"CUDA_ERROR_MISALIGNED_ADDRESS",
        Error::ILLEGAL_STATE => c"CUDA_ERROR_ILLEGAL_STATE",
        Error::NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
        Error::CAPTURE_UNSUPPORTED => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        _ => return None,
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: c_int, text: *mut *const c_char) -> Status {
    match error_name(Error(error)) {
        Some(name) => status(give(text, name.as_ptr())),
        None => Error::INVALID_VALUE.0,
    }
}
