//! Any file with tensors in it.

use crate::info::{TensorInfo, no_such_tensor};
use crate::npy::header::MAGIC;
use crate::{ModelFiles, NpyFile, NpzFile, io_error};
use elinvar_core::{HostTensor, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A safetensors file, a model in several of them, a `.npz` or a `.npy` file: detected by its first
/// bytes, not by its name.
#[derive(Debug)]
pub enum TensorFile {
    /// Safetensors: a file, an index or a directory.
    Safetensors(ModelFiles),
    /// Several NumPy arrays.
    Npz(NpzFile),
    /// One NumPy array.
    Npy(NpyFile),
}

/// The first bytes of a zip archive, and of one without entries.
const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

impl TensorFile {
    /// Opens a file or directory and checks its headers; no elements are read.
    ///
    /// # Errors
    /// As [`ModelFiles::open`], [`NpzFile::open`] and [`NpyFile::open`]. Any other file is read as
    /// safetensors, which have no magic number.
    pub fn open(path: impl AsRef<Path>) -> Result<TensorFile> {
        let path = path.as_ref();
        let mut first = Vec::new();
        if !path.is_dir() {
            let file = File::open(path).map_err(|e| io_error(path, e))?;
            file.take(MAGIC.len() as u64).read_to_end(&mut first).map_err(|e| io_error(path, e))?;
        }
        if first == MAGIC {
            NpyFile::open(path).map(TensorFile::Npy)
        } else if ZIP.iter().any(|zip| first.starts_with(zip)) {
            NpzFile::open(path).map(TensorFile::Npz)
        } else {
            ModelFiles::open(path).map(TensorFile::Safetensors)
        }
    }

    /// The tensors, in the order of their names.
    pub fn tensors(&self) -> Vec<&TensorInfo> {
        match self {
            TensorFile::Safetensors(file) => file.tensors().collect(),
            TensorFile::Npz(file) => file.tensors().collect(),
            TensorFile::Npy(file) => vec![file.info()],
        }
    }

    /// Free text by key; NumPy's files have none.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        match self {
            TensorFile::Safetensors(file) => file.metadata().clone(),
            TensorFile::Npz(_) | TensorFile::Npy(_) => BTreeMap::new(),
        }
    }

    /// Reads one tensor.
    ///
    /// # Errors
    /// As [`ModelFiles::tensor`], [`NpzFile::tensor`] and [`NpyFile::tensor`].
    pub fn tensor(&self, name: &str) -> Result<HostTensor> {
        match self {
            TensorFile::Safetensors(file) => file.tensor(name),
            TensorFile::Npz(file) => file.tensor(name),
            TensorFile::Npy(file) if file.info().name == name => file.tensor(),
            TensorFile::Npy(file) => Err(no_such_tensor(name, std::iter::once(&file.info().name))),
        }
    }
}
