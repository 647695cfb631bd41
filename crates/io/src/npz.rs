//! NumPy's `.npz` files: a zip archive with a `.npy` file for each array, stored or deflated.
//!
//! The archive's structure is read by the crate `rawzip`, which iterates over the directory and
//! allocates nothing, so that two entries of one name, or of the same bytes, are detected and
//! rejected.
//!
//! The allocation for a small archive is bounded: an entry must have the length that its array's
//! header implies, the ratio of deflate is at most [`DEFLATE_MOST`], buffers grow with the bytes
//! that arrive, and entries may not share bytes of the archive.

use crate::atomic_write;
use crate::info::{TensorInfo, no_such_tensor};
use crate::mapped::Bytes;
use crate::npy::header::{self, NpyHeader};
use crate::npy::{at_most, tensor, write_npy};
use elinvar_core::{Error, HostTensor, Result};
use flate2::Compression;
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rawzip::path::ZipFilePath;
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveWriter, crc32};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::Path;

/// The maximum expansion ratio of deflate: 258 bytes of a match from 2 bits (zlib's technical
/// notes: 1032 to 1).
pub const DEFLATE_MOST: u64 = 1032;

/// The suffix that NumPy appends to an array's name.
const ENDING: &str = ".npy";

/// Reads a `.npz` file as a whole. [`NpzFile`] reads single arrays of it.
///
/// # Errors
/// `Io` if it cannot be read; `Format` if it is damaged; `Unsupported` if an array has elements of
/// a type that elinvar does not have, or is compressed by another method than deflate;
/// `OutOfMemory`. The path is in the sentence.
pub fn load_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, HostTensor>> {
    let path = path.as_ref();
    NpzFile::new(Bytes::read(path)?).and_then(|f| f.all()).map_err(|e| e.at(path.display()))
}

/// Reads the bytes of a `.npz` file.
///
/// # Errors
/// As [`load_npz`], without the path.
pub fn read_npz(bytes: &[u8]) -> Result<BTreeMap<String, HostTensor>> {
    let members = members(bytes)?;
    members.iter().map(|(name, m)| Ok((name.clone(), m.read(bytes)?))).collect()
}

/// Writes a `.npz` file as `numpy.savez` does, without compression. It replaces an older one only
/// when it is complete.
///
/// # Errors
/// `Io` with the path, if it cannot be written; `Unsupported` for bf16; `InvalidArgument` if a name
/// cannot be the name of a file in an archive, such as `../w`, or is longer than 65 531 bytes.
pub fn save_npz(path: impl AsRef<Path>, tensors: &BTreeMap<String, HostTensor>) -> Result<()> {
    atomic_write(path, |w| write_npz(w, tensors, false))
}

/// As [`save_npz`], deflated, as `numpy.savez_compressed` does.
///
/// # Errors
/// As [`save_npz`].
pub fn save_npz_compressed(path: impl AsRef<Path>, tensors: &BTreeMap<String, HostTensor>) -> Result<()> {
    atomic_write(path, |w| write_npz(w, tensors, true))
}

/// Writes the bytes of a `.npz` file, deflated or not: always the same ones for the same tensors,
/// because every array has the same date. (Deflated ones may change with the version of the
/// compressor.)
///
/// # Errors
/// As [`save_npz`].
pub fn write_npz(
    writer: &mut dyn Write,
    tensors: &BTreeMap<String, HostTensor>,
    deflate: bool,
) -> Result<()> {
    let written = |e: rawzip::Error| Error::io(e.to_string());
    // The first date that a zip archive can represent, as in NumPy.
    let date = UtcDateTime::from_components(1980, 1, 1, 0, 0, 0, 0).expect("a day that there was");
    let mut archive = ZipArchiveWriter::new(writer);
    for (name, tensor) in tensors {
        let file = format!("{name}{ENDING}");
        if ZipFilePath::from_str(&file).as_str() != file || file.len() > usize::from(u16::MAX) {
            return Err(Error::argument(format!(
                "a tensor named {name:?} cannot be written into a .npz file: it is no file name that an archive keeps"
            )));
        }
        let method = if deflate { CompressionMethod::DEFLATE } else { CompressionMethod::STORE };
        let (mut entry, config) = archive
            .new_file(&file)
            .compression_method(method)
            .last_modified(date)
            .start()
            .map_err(written)?;
        let descriptor = if deflate {
            let mut content = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
            write_npy(&mut content, tensor)?;
            let (encoder, descriptor) = content.finish().map_err(written)?;
            encoder.finish()?;
            descriptor
        } else {
            let mut content = config.wrap(&mut entry);
            write_npy(&mut content, tensor)?;
            content.finish().map_err(written)?.1
        };
        entry.finish(descriptor).map_err(written)?;
    }
    archive.finish().map_err(written)?;
    Ok(())
}

/// A `.npz` file, mapped into memory: its directory and the arrays' headers are checked, the arrays
/// are read one at a time, on demand. As for [`SafetensorsFile`](crate::SafetensorsFile), the file
/// must not be truncated while it is open.
#[derive(Debug)]
pub struct NpzFile {
    bytes: Bytes,
    members: BTreeMap<String, Member>,
}

/// An array in the archive.
#[derive(Debug)]
struct Member {
    info: TensorInfo,
    header: NpyHeader,
    /// The range of its bytes, compressed or not, in the archive.
    range: Range<usize>,
    deflated: bool,
    crc: u32,
}

impl NpzFile {
    /// Opens a file and checks its directory and the header of each array; no elements are read.
    ///
    /// Entries that are not named `.npy` are not arrays and are skipped.
    ///
    /// # Errors
    /// As [`load_npz`]; an element type that elinvar does not have is no error here.
    pub fn open(path: impl AsRef<Path>) -> Result<NpzFile> {
        let path = path.as_ref();
        NpzFile::new(Bytes::map(path)?).map_err(|e| e.at(path.display()))
    }

    fn new(bytes: Bytes) -> Result<NpzFile> {
        Ok(NpzFile { members: members(&bytes)?, bytes })
    }

    /// The arrays, in the order of their names, which are without `.npy`.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.members.values().map(|m| &m.info)
    }

    /// Reads one array.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no array of this name; `Unsupported` if its elements are of a
    /// type that elinvar does not have; `Format` if its bytes are damaged; `OutOfMemory`.
    pub fn tensor(&self, name: &str) -> Result<HostTensor> {
        let member = self.members.get(name).ok_or_else(|| no_such_tensor(name, self.members.keys()))?;
        member.read(&self.bytes)
    }

    fn all(&self) -> Result<BTreeMap<String, HostTensor>> {
        self.members.iter().map(|(name, m)| Ok((name.clone(), m.read(&self.bytes)?))).collect()
    }
}

/// The arrays of an archive.
fn members(bytes: &[u8]) -> Result<BTreeMap<String, Member>> {
    let damaged = |e: rawzip::Error| Error::format(format!("this is no zip archive that can be read: {e}"));
    let archive = ZipArchive::from_slice(bytes).map_err(damaged)?;
    let (mut members, mut ranges, mut entries) = (BTreeMap::new(), Vec::new(), 0);
    for entry in archive.entries() {
        let entry = entry.map_err(damaged)?;
        entries += 1;
        let path = entry.file_path();
        let shown = String::from_utf8_lossy(path.as_bytes());
        let at = |e: Error| e.at(format!("array {shown:?}"));
        let Some(name) = path.as_bytes().strip_suffix(ENDING.as_bytes()) else { continue };
        let name = std::str::from_utf8(name).map_err(|_| at(Error::format("its name is not UTF-8")))?;
        let local = archive.get_entry(entry.wayfinder()).map_err(|e| at(damaged(e)))?;
        let deflated = match entry.compression_method() {
            _ if entry.flags().is_encrypted() => {
                return Err(at(Error::unsupported("it is encrypted, which cannot be read")));
            }
            CompressionMethod::STORE => false,
            CompressionMethod::DEFLATE => true,
            other => {
                return Err(at(Error::unsupported(format!(
                    "it is packed with method {}; those that can be read are stored and deflated",
                    other.as_u16()
                ))));
            }
        };
        let (size, packed) = (entry.uncompressed_size_hint(), local.data().len() as u64);
        let possible = if deflated { size <= packed.saturating_mul(DEFLATE_MOST) } else { size == packed };
        if !possible {
            return Err(at(Error::format(format!("{packed} bytes cannot be unpacked to {size}"))));
        }
        let header = match deflated {
            true => header::read(&mut DeflateDecoder::new(local.data())),
            false => header::read(&mut local.data()),
        };
        let header = header.map_err(at)?;
        let info = header.info(name, size.saturating_sub(header.len as u64)).map_err(at)?;
        // Within the archive, so it fits `usize`.
        let (from, to) = local.compressed_data_range();
        let range = from as usize..to as usize;
        ranges.push(range.clone());
        let crc = entry.crc32();
        if members.insert(name.to_string(), Member { info, header, range, deflated, crc }).is_some() {
            return Err(at(Error::format("it is there twice")));
        }
    }
    if entries != archive.entries_hint() {
        return Err(Error::format(format!(
            "the archive should have {} entries, and it has {entries}: it is damaged",
            archive.entries_hint()
        )));
    }
    if members.is_empty() && entries > 0 {
        return Err(Error::format(format!(
            "a zip archive, but none of its {entries} entries is an array (*{ENDING}); weights that PyTorch saved have \
             to be saved as safetensors first"
        )));
    }
    ranges.sort_by_key(|r| r.start);
    if ranges.windows(2).any(|r| r[0].end > r[1].start) {
        return Err(Error::format("two arrays share bytes of the archive: it was made to fill the memory"));
    }
    Ok(members)
}

impl Member {
    /// The array, from the archive's bytes.
    fn read(&self, archive: &[u8]) -> Result<HostTensor> {
        // Before anything is decompressed.
        self.info.known()?;
        let at = |e: Error| e.at(format!("array `{}`", self.info.name));
        let packed = &archive[self.range.clone()];
        let unpacked;
        let content = if self.deflated {
            let size = self.header.len as u64 + self.info.bytes;
            // One byte more than expected, to detect longer data.
            unpacked = at_most(&mut DeflateDecoder::new(packed) as &mut dyn Read, size + 1).map_err(at)?;
            &unpacked[..]
        } else {
            packed
        };
        if crc32(content) != self.crc {
            return Err(at(Error::format(
                "its checksum is not the one that the archive gives: it is damaged",
            )));
        }
        let data = content.get(self.header.len..).ok_or_else(|| at(Error::format("it is cut off")))?;
        tensor(&self.info.name, &self.header, data).map_err(at)
    }
}
