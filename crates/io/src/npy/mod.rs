//! NumPy's `.npy` files: one array each.
//!
//! All element types that NumPy shares with elinvar are read, of either byte order, row-major or
//! column-major, from files of versions 1.0 to 3.0. Files are written byte for byte as by
//! `numpy.save`: row-major, little-endian. bf16 has no name in NumPy, so it cannot be written.

pub(crate) mod header;
mod order;

use crate::atomic_write;
use crate::info::TensorInfo;
use crate::mapped::Bytes;
use elinvar_core::host::with_capacity;
use elinvar_core::{Error, HostData, HostTensor, Result};
use header::NpyHeader;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

/// Reads a `.npy` file as a whole.
///
/// # Errors
/// `Io` if it cannot be read; `Format` if it is damaged; `Unsupported` if its elements are of a
/// type that elinvar does not have; `OutOfMemory`. The path is in the sentence.
pub fn load_npy(path: impl AsRef<Path>) -> Result<HostTensor> {
    let path = path.as_ref();
    read_npy(&Bytes::read(path)?).map_err(|e| e.at(path.display()))
}

/// Reads the bytes of a `.npy` file.
///
/// # Errors
/// As [`load_npy`], without the path.
pub fn read_npy(bytes: &[u8]) -> Result<HostTensor> {
    let (_, header, data) = split("array", bytes)?;
    tensor("array", &header, data)
}

/// Writes a `.npy` file; it replaces an older one only when it is complete.
///
/// # Errors
/// `Io` with the path, if it cannot be written; `Unsupported` for bf16.
pub fn save_npy(path: impl AsRef<Path>, tensor: &HostTensor) -> Result<()> {
    atomic_write(path, |w| write_npy(w, tensor))
}

/// Writes the bytes of a `.npy` file: those that `numpy.save` writes.
///
/// # Errors
/// `Io` if the writer fails; `Unsupported` for bf16.
pub fn write_npy(writer: &mut dyn Write, tensor: &HostTensor) -> Result<()> {
    writer.write_all(&header::write(tensor.dtype(), tensor.shape())?)?;
    Ok(writer.write_all(&tensor.data().to_le_bytes())?)
}

/// A `.npy` file, mapped into memory: its header is checked, its elements are read on demand. As
/// for [`SafetensorsFile`](crate::SafetensorsFile), the file must not be truncated while it is
/// open.
#[derive(Debug)]
pub struct NpyFile {
    bytes: Bytes,
    header: NpyHeader,
    info: TensorInfo,
}

impl NpyFile {
    /// Opens a file and checks its header; no elements are read.
    ///
    /// # Errors
    /// As [`load_npy`]; an element type that elinvar does not have is no error here.
    pub fn open(path: impl AsRef<Path>) -> Result<NpyFile> {
        let path = path.as_ref();
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = Bytes::map(path)?;
        let (info, header, _) = split(&name, &bytes).map_err(|e| e.at(path.display()))?;
        Ok(NpyFile { bytes, header, info })
    }

    /// The description of the array, which has the file's name.
    pub fn info(&self) -> &TensorInfo {
        &self.info
    }

    /// Reads the array.
    ///
    /// # Errors
    /// `Unsupported` if its elements are of a type that elinvar does not have; `OutOfMemory`.
    pub fn tensor(&self) -> Result<HostTensor> {
        tensor(&self.info.name, &self.header, &self.bytes[self.header.len..])
    }
}

/// The parsed header and the bytes of the elements; the array is called `name`.
fn split<'a>(name: &str, bytes: &'a [u8]) -> Result<(TensorInfo, NpyHeader, &'a [u8])> {
    let header = header::read(&mut &bytes[..])?;
    // In bounds: `header.len` bytes were read.
    let data = &bytes[header.len..];
    let info = header.info(name, data.len() as u64)?;
    Ok((info, header, data))
}

/// The tensor of these bytes, whose number the caller has checked.
pub(crate) fn tensor(name: &str, header: &NpyHeader, data: &[u8]) -> Result<HostTensor> {
    let dtype = header.info(name, data.len() as u64)?.known()?;
    let elements = if header.big_endian && dtype.size() > 1 {
        HostData::from_le_bytes(dtype, &swapped(data, dtype.size())?)?
    } else {
        HostData::from_le_bytes(dtype, data)?
    };
    let elements = if header.fortran { order::to_row_major(elements, &header.shape)? } else { elements };
    HostTensor::new(header.shape.clone(), elements)
}

/// Swaps the bytes of each element.
fn swapped(data: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut out = with_capacity(data.len())?;
    for element in data.chunks_exact(size) {
        out.extend(element.iter().rev());
    }
    Ok(out)
}

/// All bytes of a reader, but at most `n`. The allocation is proportional to the bytes that arrive,
/// not to `n`.
pub(crate) fn at_most(reader: &mut dyn Read, n: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(n).read_to_end(&mut bytes).map_err(|e| match e.kind() {
        ErrorKind::OutOfMemory => Error::memory(format!("out of memory after {} bytes", bytes.len())),
        // Only a decompressor can fail here: the bytes are in memory.
        _ => Error::format(e.to_string()),
    })?;
    Ok(bytes)
}
