//! The functions of the driver's library, as C callers see them.

#![allow(
    missing_docs,
    reason = "the names and arguments are AMD's, who describes them in \"HIP Runtime API\""
)]
#![allow(clippy::missing_safety_doc, reason = "as above")]
#![allow(non_snake_case, reason = "as above")]

use super::object;
use crate::llvm::parse;
use crate::settings::Settings;
use emulated_gpu::device::Device;
use emulated_gpu::driver_functions;
use emulated_gpu::sys::functions::{Driver, give_text, status};
use std::cell::Cell;

static DRIVER: Driver = Driver::new(Settings::properties);

thread_local! {
    /// The device of this thread.
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

/// Requires a device without a sticky error.
pub(super) fn within(f: impl FnOnce(&mut Device) -> Result<(), Error>) -> Status {
    DRIVER.with(|d| {
        known(CURRENT.get())?;
        d.check()?;
        f(d)
    })
}

driver_functions! {
    within;
    streams: hipStreamCreateWithFlags hipStreamDestroy hipStreamSynchronize;
    events: hipEventCreateWithFlags hipEventDestroy hipEventRecord hipEventQuery hipEventSynchronize
        hipStreamWaitEvent hipEventElapsedTime;
    graphs: hipStreamBeginCapture hipStreamEndCapture hipGraphInstantiateWithFlags hipGraphLaunch
        hipGraphDestroy hipGraphExecDestroy;
    memory: hipMalloc hipFree hipMallocAsync hipFreeAsync hipHostMalloc hipHostFree;
    copies: hipMemcpyHtoDAsync hipMemcpyDtoHAsync hipMemcpyDtoDAsync;
    modules: hipModuleUnload hipModuleGetFunction hipModuleLaunchKernel;
    pools: Settings::get().pools;
}

/// Is the device only emulated? 1 unless it passes as a discrete GPU.
#[unsafe(no_mangle)]
pub extern "C" fn elinvar_emulated_hip() -> c_int {
    c_int::from(Settings::get().software)
}

#[unsafe(no_mangle)]
pub extern "C" fn hipInit(flags: c_uint) -> Status {
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
pub extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> Status {
    status(give(version, Settings::get().version))
}
#[unsafe(no_mangle)]
pub extern "C" fn hipGetDeviceCount(count: *mut c_int) -> Status {
    DRIVER.with(|_| give(count, Settings::get().devices))
}
fn known(number: c_int) -> Result<(), Error> {
    if (0..Settings::get().devices).contains(&number) { Ok(()) } else { Err(Error::INVALID_DEVICE) }
}
#[unsafe(no_mangle)]
pub extern "C" fn hipDeviceGet(device: *mut c_int, ordinal: c_int) -> Status {
    DRIVER.with(|_| {
        known(ordinal)?;
        give(device, ordinal)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn hipSetDevice(device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        CURRENT.set(device);
        Ok(())
    })
}
fn device_name() -> String {
    format!("emulated {}", Settings::get().arch)
}
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        // SAFETY: the caller has `len` bytes there.
        unsafe { give_text(name, usize::try_from(len).unwrap_or(0), &device_name()) }
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        give(bytes, Settings::get().memory as usize)
    })
}
#[unsafe(no_mangle)]
pub extern "C" fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        give(
            value,
            match attribute {
                // Part of the processor.
                16 => 0,
                // Compute units: an MI300X's, so that tiles are chosen as for one.
                63 => 304,
                88 => c_int::from(Settings::get().pools),
                _ => return Err(Error::INVALID_VALUE),
            },
        )
    })
}
/// A structure whose layout is another in each version: here the name, and the architecture where
/// that of ROCm 6 has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(to: *mut u8, device: c_int) -> Status {
    DRIVER.with(|_| {
        known(device)?;
        let arch = Settings::get().arch;
        let features = if arch.starts_with("gfx9") { ":sramecc+:xnack-" } else { "" };
        // SAFETY: the structure has 1472 bytes.
        unsafe {
            to.write_bytes(0, 1472);
            give_text(to.cast(), 256, &device_name())?;
            give_text(to.add(1160).cast(), 256, &format!("{arch}{features}"))
        }
    })
}

/// All devices share one memory here.
#[unsafe(no_mangle)]
pub extern "C" fn hipMemcpyPeerAsync(
    to: u64,
    to_device: c_int,
    from: u64,
    from_device: c_int,
    bytes: usize,
    s: Handle,
) -> Status {
    within(|d| {
        known(to_device)?;
        known(from_device)?;
        d.push(s as u64, Operation::Work(Work::Across { from, to, bytes: bytes as u64 }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    _count: c_uint,
    _options: *const c_int,
    _values: *const Handle,
) -> Status {
    within(|d| {
        if image.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: a code object, or an image that is longer than its magic number.
        let (isa, text) = unsafe { object::read(image) }.ok_or(Error::INVALID_IMAGE)?;
        let arch = Settings::get().arch;
        if isa.split(':').next().and_then(|plain| plain.rsplit('-').next()) != Some(arch) {
            return Err(Error::NO_BINARY);
        }
        let program = parse(&text, arch).map_err(|_| Error::INVALID_IMAGE)?;
        give(module, d.load(program) as Handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(error: c_int) -> *const c_char {
    let name = match Error(error) {
        Error(0) => c"hipSuccess",
        Error::INVALID_VALUE => c"hipErrorInvalidValue",
        Error::OUT_OF_MEMORY => c"hipErrorOutOfMemory",
        Error::NOT_INITIALIZED => c"hipErrorNotInitialized",
        Error::NO_DEVICE => c"hipErrorNoDevice",
        Error::INVALID_DEVICE => c"hipErrorInvalidDevice",
        Error::INVALID_IMAGE => c"hipErrorInvalidImage",
        Error::INVALID_CONTEXT => c"hipErrorInvalidContext",
        Error::NO_BINARY => c"hipErrorNoBinaryForGpu",
        Error::INVALID_HANDLE => c"hipErrorInvalidHandle",
        Error::ILLEGAL_STATE => c"hipErrorIllegalState",
        Error::NOT_FOUND => c"hipErrorNotFound",
        Error::NOT_READY => c"hipErrorNotReady",
        Error::ILLEGAL_ADDRESS => c"hipErrorIllegalAddress",
        Error::MISALIGNED_ADDRESS => c"hipErrorMisalignedAddress",
        Error::NOT_SUPPORTED => c"hipErrorNotSupported",
        Error::CAPTURE_UNSUPPORTED => c"hipErrorStreamCaptureUnsupported",
        _ => c"hipErrorUnknown",
    };
    name.as_ptr()
}
