//! Files in and out of host memory: safetensors, a hash of weights, metrics as JSON lines. No device code.
//!
//! * [`load_safetensors`] and [`save_safetensors`]: named tensors and string metadata.
//! * [`weights_hash`]: one line that tells whether two models are the same, bit for bit.
//! * [`atomic_write`]: a file is replaced as a whole or not at all.
//! * [`JsonLines`]: one record per line, readable while the program still runs.
//!
//! Whatever a file contains, reading it gives a value or an error, never a panic; what is allocated is in proportion
//! to the length that the file really has.

mod atomic;
mod hash;
mod header;
mod json_lines;
mod safetensors;

pub use atomic::{atomic_write, writable_dir};
pub use hash::weights_hash;
pub use json_lines::JsonLines;
pub use safetensors::{Safetensors, load_safetensors, read_safetensors, save_safetensors, write_safetensors};

use elinvar_core::Error;
use std::path::Path;

/// The error of the operating system with the path it is about: `out/a.txt: Permission denied (os error 13)`.
pub(crate) fn io_error(path: &Path, error: std::io::Error) -> Error {
    Error::from(error).at(path.display())
}
