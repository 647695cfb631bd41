//! NVIDIA's driver library (libcuda): found at run time, loaded once.

use super::CUBLASLT;
use super::functions::{NvidiaFunctions, functions};
use crate::streams::sys::{Api, Status};
use crate::sys::Wanted;
use elinvar_core::{Error, Result};
use libloading::Symbol;
use std::ffi::c_int;
use std::path::Path;
use std::sync::OnceLock;

/// The library, as the user may name it and as systems do.
static WANTED: Wanted = Wanted {
    driver: "cuda",
    variable: "ELINVAR_CUDA_LIBRARY",
    names: if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] },
    install: "install NVIDIA's driver (on Debian: apt-get install nvidia-driver)",
    what: "NVIDIA's driver",
    named: OnceLock::new(),
};
/// The oldest version of the driver that has all functions and takes all PTX that is emitted, and
/// that PTX.
const MIN_VERSION: (c_int, &str) = (11000, "7.0");

/// Names the library that is loaded in the place of the system's; `ELINVAR_CUDA_LIBRARY` in the
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
pub fn api() -> Result<&'static Api> {
    static API: OnceLock<Result<Api>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// "12.4"
pub fn shown(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn load() -> Result<Api> {
    let (name, library) = WANTED.load()?;
    let lacks = |symbol: &str| WANTED.lacks(&name, symbol);
    // The version first: an old driver lacks functions, too.
    let mut version = 0;
    // SAFETY: a library that has a function of this name has it with this type, as NVIDIA's has;
    // the place for the result is valid.
    let asked = unsafe {
        let get: Result<Symbol<'_, unsafe extern "system" fn(*mut c_int) -> Status>, _> =
            library.get(b"cuDriverGetVersion\0");
        get.map_err(|_| lacks("cuDriverGetVersion"))?(&raw mut version)
    };
    if asked == 0 && version < MIN_VERSION.0 {
        return Err(Error::unsupported(format!(
            "cuda: the driver is of CUDA {}, and kernels are PTX up to {}, which needs CUDA {}; a newer driver has it",
            shown(version),
            MIN_VERSION.1,
            shown(MIN_VERSION.0)
        )));
    }
    // SAFETY: as above; the library is leaked, so it stays.
    let (table, nvidia) = unsafe { (functions(&library), NvidiaFunctions::of(&library)) };
    std::mem::forget(library);
    let (table, nvidia) = (table.map_err(lacks)?, nvidia.map_err(lacks)?);
    // SAFETY: the function is there.
    let emulated = nvidia.is_emulated.is_some_and(|f| unsafe { f() } == 1);
    let api = Api {
        driver: "cuda",
        gpu: "NVIDIA GPU",
        table,
        nvidia: Some(nvidia),
        products: &CUBLASLT,
        version,
        emulated,
    };
    api.check(asked, || "asking for the driver's version".into())?;
    // NO_DEVICE
    api.start(&[100])?;
    Ok(api)
}
