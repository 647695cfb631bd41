//! CUDA without a GPU: the emulated library, built and named. Is there a real one?

use crate::test::{Outcome, PROGRAM};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names the library in the place of NVIDIA's.
const LIBRARY: &str = "ELINVAR_CUDA_LIBRARY";

/// Builds the program and what stands in for NVIDIA's library. Together: alone, each would be built with other features.
pub const BUILD: [&str; 6] =
    ["build", "--release", "--package", "elinvar-cli", "--package", "elinvar-emulated-cuda"];

/// The emulated library, built as programs for users are.
fn built() -> Result<&'static Path, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let status = crate::cargo(&BUILD).status();
        let status = status.map_err(|e| format!("cargo did not start: {e}"))?;
        let name = format!("{}emulated_cuda{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let path = crate::python::target()?.join("release").join(name);
        match status.success() && path.is_file() {
            true => Ok(path),
            false => {
                Err(format!("the emulated library was not built ({status}); {} is missing", path.display()))
            }
        }
    };
    BUILT.get_or_init(build).as_deref().map_err(Clone::clone)
}

/// Variables with which a program finds the emulated device. It passes as a card, so that what runs is what a card would run;
/// what was compiled for it is not kept.
pub fn emulated() -> Result<[(&'static str, String); 3], String> {
    let library = built()?.to_str().ok_or("the path of the target directory is not UTF-8")?;
    Ok([
        (LIBRARY, library.to_string()),
        ("ELINVAR_EMULATED_CUDA_AS", "discrete".to_string()),
        // No directory can be made below a device file, whoever asks.
        ("ELINVAR_CACHE_DIR", String::from("/dev/null")),
    ])
}

/// Nothing if there is a real device; else why what needs one is left out.
pub fn there() -> Option<Outcome> {
    static THERE: OnceLock<bool> = OnceLock::new();
    let there = *THERE.get_or_init(|| {
        let mut devices: Command = crate::cargo(&[&PROGRAM[..], &["devices"]].concat());
        devices.env_remove(LIBRARY);
        devices.output().is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("cuda:0"))
    });
    (!there).then(|| Outcome::Skipped("no NVIDIA GPU, or no driver for it".into()))
}
