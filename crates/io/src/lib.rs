//! Reading and writing files from and to host memory: safetensors, NumPy's arrays, a hash of
//! weights, metrics as JSON lines. No device code.
//!
//! | | as a whole | tensor by tensor | written by |
//! |---|---|---|---|
//! | safetensors | [`load_safetensors`] | [`SafetensorsFile`] | [`save_safetensors`] |
//! | a model in several files | | [`ModelFiles`] | [`save_sharded`] |
//! | `.npy` | [`load_npy`] | [`NpyFile`] | [`save_npy`] |
//! | `.npz` | [`load_npz`] | [`NpzFile`] | [`save_npz`], [`save_npz_compressed`] |
//! | whichever it is | | [`TensorFile`] | |
//!
//! * [`weights_hash`]: a hash that tells whether two models are the same, bit for bit.
//! * [`atomic_write`]: a file is replaced as a whole or not at all.
//! * [`JsonLines`]: one record per line, readable while the program still runs.
//!
//! For any contents of a file, reading gives a value or an error, never a panic; allocations are
//! proportional to the file's actual length (times 1032 if it is deflated). `tests/hostile.rs` and
//! the fuzz targets in `fuzz/` check this.

mod atomic;
mod hash;
mod header;
mod info;
mod json_lines;
mod mapped;
mod model_files;
mod npy;
mod npz;
mod safetensors;
mod safetensors_file;
mod shard_index;
mod tensor_file;

pub use atomic::{atomic_write, writable_dir};
pub use hash::weights_hash;
pub use info::{StoredType, TensorInfo};
pub use json_lines::JsonLines;
pub use model_files::{ModelFiles, save_sharded};
pub use npy::{NpyFile, load_npy, read_npy, save_npy, write_npy};
pub use npz::{NpzFile, load_npz, read_npz, save_npz, save_npz_compressed, write_npz};
pub use safetensors::{Safetensors, load_safetensors, read_safetensors, save_safetensors, write_safetensors};
pub use safetensors_file::SafetensorsFile;
pub use shard_index::ShardIndex;
pub use tensor_file::TensorFile;

use elinvar_core::Error;
use std::path::Path;

/// The error of the operating system with the path it is about:
/// `out/a.txt: Permission denied (os error 13)`.
pub(crate) fn io_error(path: &Path, error: std::io::Error) -> Error {
    Error::from(error).at(path.display())
}
