//! The emulated CUDA library, for tests without a GPU; and detection of a real device.

use crate::program;
use crate::step::Outcome;
use std::env;
use std::sync::OnceLock;

/// Names the library to load instead of NVIDIA's.
const LIBRARY: &str = "ELINVAR_CUDA_LIBRARY";

/// No directory can be made below a device file, not even by root.
pub const NO_CACHE: &str = "/dev/null";

/// The path of an emulated library, as the tests have built it: it is optimised in each profile.
pub fn library(name: &str) -> Result<String, String> {
    let name = format!("{}{name}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let path = program::built_with_all_features()?.join(name);
    if !path.is_file() {
        return Err(format!("the emulated library was not built; {} is missing", path.display()));
    }
    let text = path.into_os_string().into_string();
    text.map_err(|_| "the path of the target directory is not UTF-8".to_string())
}

/// Variables that select the emulated device. It passes as a discrete GPU, so that the same code
/// runs as on one; compiled kernels are not cached.
pub fn emulated() -> Result<[(&'static str, String); 3], String> {
    Ok([
        (LIBRARY, library("emulated_cuda")?),
        ("ELINVAR_EMULATED_CUDA_AS", "discrete".to_string()),
        ("ELINVAR_CACHE_DIR", NO_CACHE.to_string()),
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
