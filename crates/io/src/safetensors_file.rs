//! A safetensors file whose tensors are read one at a time.

use crate::header::{self, LENGTH, Planned, lengths, too_short};
use crate::info::{TensorInfo, no_such_tensor};
use crate::mapped::Bytes;
use elinvar_core::host::with_capacity;
use elinvar_core::{HostData, HostTensor, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// A safetensors file, mapped into memory: its header is checked, its tensors are read one at a
/// time, on demand. So the file and the model need not fit into memory together.
///
/// A tensor whose element type elinvar does not have is listed, and does not prevent reading the
/// others.
///
/// The file must not be truncated while it is open: the operating system would end the process. If
/// it is replaced, this object keeps the old file. Where this cannot be guaranteed,
/// [`load_safetensors`](crate::load_safetensors) reads without mapping.
#[derive(Debug)]
pub struct SafetensorsFile {
    bytes: Bytes,
    /// The start of the data, the base of the tensors' offsets.
    start: usize,
    tensors: BTreeMap<String, Planned>,
    metadata: BTreeMap<String, String>,
}

impl SafetensorsFile {
    /// Opens a file and checks its header; no elements are read.
    ///
    /// # Errors
    /// `Io` if it cannot be opened or mapped; `Format` if the header is damaged or does not fit the
    /// file's length; `OutOfMemory`. The path is in the sentence.
    pub fn open(path: impl AsRef<Path>) -> Result<SafetensorsFile> {
        let path = path.as_ref();
        SafetensorsFile::new(Bytes::map(path)?).map_err(|e| e.at(path.display()))
    }

    /// A file that is in memory already.
    ///
    /// # Errors
    /// As [`SafetensorsFile::open`], without the path.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<SafetensorsFile> {
        SafetensorsFile::new(Bytes::Owned(bytes))
    }

    fn new(bytes: Bytes) -> Result<SafetensorsFile> {
        let len = bytes.len() as u64;
        let first = *bytes.first_chunk::<{ LENGTH as usize }>().ok_or_else(|| too_short(len))?;
        let (header, data) = lengths(first, len)?;
        // Both fit `usize`: their sum is at most the length of a slice.
        let start = (LENGTH + header) as usize;
        // A copy, because the mapped file may change after the check; its length was checked.
        let mut json = with_capacity(start - LENGTH as usize)?;
        json.extend_from_slice(&bytes[LENGTH as usize..start]);
        let (planned, metadata) = header::read(&json, data)?;
        let tensors = planned.into_iter().map(|p| (p.info.name.clone(), p)).collect();
        Ok(SafetensorsFile { bytes, start, tensors, metadata })
    }

    /// The tensors, in the order of their names.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.values().map(|p| &p.info)
    }

    /// The description of this tensor, if the file has it.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|p| &p.info)
    }

    /// Free text by key.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Reads one tensor.
    ///
    /// # Errors
    /// `InvalidArgument` if the file has no tensor of this name; `Unsupported` if its elements are
    /// of a type that elinvar does not have; `OutOfMemory`.
    pub fn tensor(&self, name: &str) -> Result<HostTensor> {
        let Planned { info, from } =
            self.tensors.get(name).ok_or_else(|| no_such_tensor(name, self.tensors.keys()))?;
        let dtype = info.known()?;
        // In bounds: the header was checked against the file's length.
        let from = self.start + *from as usize;
        let data = HostData::from_le_bytes(dtype, &self.bytes[from..from + info.bytes as usize])?;
        HostTensor::new(info.shape.clone(), data)
    }
}
