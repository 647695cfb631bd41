//! AMD's driver library (libamdhip64): found at run time, loaded once.

use super::HIPBLASLT;
use crate::streams::sys::{Api, Contexts, CopyBetween, ErrorName, Functions, Status, functions_of};
use crate::sys::Wanted;
use elinvar_core::{Error, Result};
use libloading::{Library, Symbol};
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

/// The library, as the user may name it and as systems do: that of ROCm 7 first.
static WANTED: Wanted = Wanted {
    driver: "rocm",
    variable: "ELINVAR_HIP_LIBRARY",
    names: if cfg!(windows) {
        &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"]
    } else {
        &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]
    },
    install: "install AMD's ROCm runtime (on Debian: apt-get install libamdhip64-5)",
    what: "AMD's driver",
    named: OnceLock::new(),
};
/// The oldest version with all functions, and with attributes of these numbers.
const MIN_VERSION: c_int = 50_000_000;

/// What fills a structure with the properties of a device. Its layout is another in each version;
/// what is looked for in it is a text.
pub type Properties = unsafe extern "C" fn(*mut u8, c_int) -> Status;

/// The library, and what is asked beside what drivers have in common.
pub struct Hip {
    pub api: Api,
    pub properties: Properties,
}

/// Names the library that is loaded in the place of the system's; `ELINVAR_HIP_LIBRARY` in the
/// environment goes before it.
///
/// # Errors
/// `InvalidArgument` if another one was named before.
pub fn use_library(path: &Path) -> Result<()> {
    WANTED.name(path)
}

/// The one library of this process.
///
/// # Errors
/// `DriverMissing` with what to install; `Unsupported` if the driver is too old.
pub fn hip() -> Result<&'static Hip> {
    static HIP: OnceLock<Result<Hip>> = OnceLock::new();
    HIP.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// "6.2", of 60_243_012.
pub fn shown(version: c_int) -> String {
    format!("{}.{}", version / 10_000_000, version / 100_000 % 100)
}

fn load() -> Result<Hip> {
    let (name, library) = WANTED.load()?;
    let lacks = |symbol: &str| WANTED.lacks(&name, symbol);
    let mut version = 0;
    // SAFETY: a library that has a function of this name has it with this type, as AMD's has; the
    // place for the result is valid.
    let asked = unsafe {
        let get: Result<Symbol<'_, unsafe extern "system" fn(*mut c_int) -> Status>, _> =
            library.get(b"hipRuntimeGetVersion\0");
        get.map_err(|_| lacks("hipRuntimeGetVersion"))?(&raw mut version)
    };
    if asked == 0 && version < MIN_VERSION {
        return Err(Error::unsupported(format!(
            "rocm: the driver is of ROCm {}, and {} is needed; a newer driver has it",
            shown(version),
            shown(MIN_VERSION)
        )));
    }
    // SAFETY: as above; the library is leaked, so it stays.
    let (table, properties, emulated) =
        unsafe { (functions(&library), properties(&library), emulated(&library)) };
    std::mem::forget(library);
    let (table, properties) = (table.map_err(lacks)?, properties.map_err(lacks)?);
    let api =
        Api { driver: "rocm", gpu: "AMD GPU", table, nvidia: None, products: &HIPBLASLT, version, emulated };
    // NO_DEVICE, INVALID_DEVICE: so it says where there is none.
    api.start(&[100, 101])?;
    api.check(asked, || "asking for the driver's version".into())?;
    Ok(Hip { api, properties })
}

/// # Safety
/// As [`functions`].
unsafe fn properties(library: &Library) -> Result<Properties, &'static str> {
    // SAFETY: the caller's promise. The first is the one of ROCm 6 and later.
    unsafe {
        let found = [&b"hipGetDevicePropertiesR0600\0"[..], b"hipGetDeviceProperties\0"]
            .into_iter()
            .find_map(|name| library.get::<Properties>(name).ok().map(|f| *f));
        found.ok_or("hipGetDeviceProperties")
    }
}

/// Does the library say of itself that it only emulates a device?
///
/// # Safety
/// As [`functions`].
unsafe fn emulated(library: &Library) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let f = library.get::<unsafe extern "system" fn() -> c_int>(b"elinvar_emulated_hip\0");
        f.is_ok_and(|f| f() == 1)
    }
}

/// The functions, with the types of "HIP Runtime API".
///
/// # Errors
/// Which one is missing.
///
/// # Safety
/// A library that has a function of one of these names has it with these types, as AMD's has, and
/// stays loaded as long as the table is used.
unsafe fn functions(library: &Library) -> Result<Functions, &'static str> {
    // SAFETY: the caller's promise.
    unsafe {
        functions_of! {
            library;
            own: {
                error_name: ErrorName::Returned(
                    *library
                        .get::<unsafe extern "system" fn(c_int) -> *const c_char>(b"hipGetErrorName\0")
                        .map_err(|_| "hipGetErrorName")?
                );
                contexts: Contexts::Numbered(*library.get(b"hipSetDevice\0").map_err(|_| "hipSetDevice")?);
                copy_between: library.get(b"hipMemcpyPeerAsync\0").ok().map(|f| CopyBetween::Numbers(*f));
            }
            all: {
                init: "hipInit";
                device_count: "hipGetDeviceCount";
                device: "hipDeviceGet";
                device_name: "hipDeviceGetName";
                device_memory: "hipDeviceTotalMem";
                device_attribute: "hipDeviceGetAttribute";
                create_stream: "hipStreamCreateWithFlags";
                destroy_stream: "hipStreamDestroy";
                wait_stream: "hipStreamSynchronize";
                create_event: "hipEventCreateWithFlags";
                destroy_event: "hipEventDestroy";
                record_event: "hipEventRecord";
                wait_event: "hipEventSynchronize";
                query_event: "hipEventQuery";
                elapsed: "hipEventElapsedTime";
                allocate: "hipMalloc";
                free: "hipFree";
                allocate_host: "hipHostMalloc";
                free_host: "hipHostFree";
                copy_up: "hipMemcpyHtoDAsync";
                copy_down: "hipMemcpyDtoHAsync";
                copy_across: "hipMemcpyDtoDAsync";
                load_module: "hipModuleLoadDataEx";
                unload_module: "hipModuleUnload";
                function: "hipModuleGetFunction";
                launch: "hipModuleLaunchKernel";
            }
            if there: {
                allocate_async: "hipMallocAsync";
                free_async: "hipFreeAsync";
                await_event: "hipStreamWaitEvent";
                begin_capture: "hipStreamBeginCapture";
                end_capture: "hipStreamEndCapture";
                instantiate_graph: "hipGraphInstantiateWithFlags";
                launch_graph: "hipGraphLaunch";
                destroy_graph: "hipGraphDestroy";
                destroy_ready_graph: "hipGraphExecDestroy";
            }
        }
    }
}
