//! The emulated CUDA library, for tests without a GPU; and detection of a real device.

use crate::program;
use crate::test::Outcome;
use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Names the library to load instead of NVIDIA's.
const LIBRARY: &str = "ELINVAR_CUDA_LIBRARY";

/// The emulated library, built with the release profile.
fn library() -> Result<PathBuf, String> {
    let name = format!("{}emulated_cuda{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let path = program::built()?.join(name);
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("the emulated library was not built; {} is missing", path.display())),
    }
}

/// Variables that select the emulated device. It passes as a discrete GPU, so that the same code
/// runs as on one; compiled kernels are not cached.
pub fn emulated() -> Result<[(&'static str, String); 3], String> {
    let library = library()?.into_os_string();
    let library = library.into_string().map_err(|_| "the path of the target directory is not UTF-8")?;
    Ok([
        (LIBRARY, library),
        ("ELINVAR_EMULATED_CUDA_AS", "discrete".to_string()),
        // No directory can be made below a device file, not even by root.
        ("ELINVAR_CACHE_DIR", String::from("/dev/null")),
    ])
}

/// `None` if there is a real device; else the outcome of a skipped step.
pub fn there() -> Option<Outcome> {
    static THERE: OnceLock<bool> = OnceLock::new();
    let there = *THERE.get_or_init(|| {
        let devices = program::lab().map(|mut lab| lab.arg("devices").env_remove(LIBRARY).output());
        devices.is_ok_and(|o| o.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains("cuda:0")))
    });
    (!there).then(|| Outcome::Skipped("no NVIDIA GPU, or no driver for it".into()))
}
