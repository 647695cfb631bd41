//! NVIDIA's driver library (libcuda): found at run time, loaded once.

use super::error::Status;
use super::functions::CudaFunctions;
use elinvar_core::{Error, ErrorKind, Result};
use libloading::{Library, Symbol};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Names a library in the place of the system's.
const NAME: &str = "ELINVAR_CUDA_LIBRARY";
/// What the driver's library is called.
const SYSTEM: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };
/// The oldest version of the driver that has all functions and takes all PTX that is emitted, and
/// that PTX.
const MIN_VERSION: (c_int, &str) = (11000, "7.0");

/// The library, loaded.
pub struct Api {
    pub table: CudaFunctions,
    /// The version of CUDA that the driver has: 12040 is 12.4.
    pub version: c_int,
    /// Does the library only emulate a device?
    pub emulated: bool,
}

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Names the library that is loaded in the place of the system's; `ELINVAR_CUDA_LIBRARY` in the
/// environment goes before it.
///
/// # Errors
/// `InvalidArgument` if another one was named before.
pub fn use_library(path: &Path) -> Result<()> {
    let named = NAMED.get_or_init(|| path.to_path_buf());
    if named == path {
        return Ok(());
    }
    Err(Error::argument(format!(
        "cuda: the library {} was named before, so {} cannot be",
        named.display(),
        path.display()
    )))
}

fn missing(why: &str) -> Error {
    Error::new(
        ErrorKind::DriverMissing,
        format!(
            "cuda: {why}; install NVIDIA's driver (on Debian: apt-get install nvidia-driver), or name its library with \
             {NAME}"
        ),
    )
}

/// A driver without a device.
pub fn none() -> Error {
    Error::new(ErrorKind::DriverMissing, "cuda: the driver is there, and finds no NVIDIA GPU in this machine")
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
    let wanted = std::env::var_os(NAME).filter(|v| !v.is_empty()).map(PathBuf::from);
    let names = match wanted.or_else(|| NAMED.get().cloned()) {
        Some(path) => vec![path],
        None => SYSTEM.iter().map(PathBuf::from).collect(),
    };
    let mut why = String::new();
    for name in &names {
        // SAFETY: a library under the name of NVIDIA's, or one that the user named as such, runs
        // nothing when it is loaded but what its maker needs.
        match unsafe { Library::new(name) } {
            Ok(library) => return start(name, library),
            Err(e) if why.is_empty() => why = format!("{} cannot be loaded ({})", name.display(), plain(&e)),
            Err(_) => {}
        }
    }
    Err(missing(&why))
}

/// What the system said, in one line.
fn plain(e: &libloading::Error) -> String {
    let source = std::error::Error::source(e);
    let text = source.map_or_else(|| e.to_string(), ToString::to_string);
    text.lines().next().unwrap_or("").to_string()
}

fn start(name: &Path, library: Library) -> Result<Api> {
    let lacks = |symbol: &str| {
        missing(&format!("{} has no function {symbol}, so it is not NVIDIA's driver", name.display()))
    };
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
    let table = unsafe { CudaFunctions::of(&library) };
    std::mem::forget(library);
    let table = table.map_err(lacks)?;
    // SAFETY: the function is there.
    let emulated = table.is_emulated.is_some_and(|f| unsafe { f() } == 1);
    let api = Api { table, version, emulated };
    api.check(asked, || "asking for the driver's version".into())?;
    // SAFETY: there are no flags.
    match unsafe { (api.table.init)(0) } {
        0 => Ok(api),
        100 => Err(none()),
        other => {
            api.check(other, || "starting the driver".into())?;
            Ok(api)
        }
    }
}
