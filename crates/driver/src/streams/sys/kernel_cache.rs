//! The kernel cache: compiled kernels in files, one each, named by a hash of the text and of what
//! it was compiled by and for.
//!
//! It saves time and is never needed, so what goes wrong with a file is not an error: it is
//! compiled again, and the file is written again. A file ends with a hash of what is before, so
//! damage is seen.

use super::device::Shared;
use elinvar_core::Error;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::PathBuf;

/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// Where the compiled form of a text is kept.
pub fn path(shared: &Shared, text: &str) -> Option<PathBuf> {
    let mut name = String::new();
    for b in Sha256::digest(text.as_bytes()) {
        let _ = write!(name, "{b:02x}");
    }
    // Device and driver are in the name of the directory.
    Some(
        crate::cache_dir()?
            .join(&shared.physical.cache_name)
            .join(format!("{name}.{}", if shared.api.nvidia.is_some() { "cubin" } else { "co" })),
    )
}

/// What is kept there, if it is whole.
pub fn load(path: &Option<PathBuf>) -> Option<Vec<u8>> {
    let mut bytes = std::fs::read(path.as_ref()?).ok()?;
    let hash = bytes.split_off(bytes.len().checked_sub(HASH_BYTES)?);
    (Sha256::digest(&bytes)[..] == hash[..]).then_some(bytes)
}

/// Keeps it.
pub fn save(path: &Option<PathBuf>, bytes: &[u8]) {
    let Some(path) = path else { return };
    let dir = path.parent().unwrap_or(path);
    if std::fs::create_dir_all(dir).is_ok() {
        let _ = elinvar_io::atomic_write(path, |file| {
            file.write_all(bytes).and_then(|()| file.write_all(&Sha256::digest(bytes))).map_err(Error::from)
        });
    }
}
