//! IDX files, the format of MNIST and its relatives; compressed by gzip or not.
//!
//! Two bytes of 0, the element type, the rank, a big-endian u32 for each size, then the elements,
//! big-endian. Allocations are proportional to the file's actual contents, not to the sizes in its
//! header.

use crate::data::{Pairs, file};
use elinvar_core::{Error, HostData, HostTensor, Result, Shape};
use flate2::bufread::MultiGzDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The default limit in bytes of the elements (see [`read_up_to`]): a small gzip file may hold any
/// number of zeros.
pub const LIMIT: u64 = 4 << 30;

/// Reads a file: u8 stays, i8, i16 and i32 become i32, f32 and f64 stay.
///
/// # Errors
/// `Io` or `Format` with the file's name; `OutOfMemory`.
pub fn read(path: impl AsRef<Path>) -> Result<HostTensor> {
    read_up_to(path, LIMIT)
}

/// Reads a file whose elements have no more than `limit` bytes.
///
/// # Errors
/// As [`read`].
pub fn read_up_to(path: impl AsRef<Path>, limit: u64) -> Result<HostTensor> {
    let path = path.as_ref();
    read_from(file::open(path)?, limit).map_err(|e| e.at(path.display()))
}

/// Reads bytes: a file's content, as [`read`].
///
/// # Errors
/// `Format` if this is not an IDX file, or one with too few or too many elements; I/O errors of the
/// reader; `OutOfMemory`.
pub fn read_from(bytes: impl Read, limit: u64) -> Result<HostTensor> {
    let mut bytes = BufReader::new(bytes);
    let head = bytes.fill_buf().map_err(failed)?;
    if head.starts_with(&[0x1f, 0x8b]) {
        decode(MultiGzDecoder::new(bytes), limit)
    } else {
        decode(bytes, limit)
    }
}

/// Images with their labels in the form that the library's networks read.
///
/// x: [n, 1, h, w] of f32 from 0 to 1   y: \[n\] of i64
///
/// # Errors
/// Those of [`read`]; `Format` if these are not bytes of [n, h, w] and \[n\].
pub fn pairs(images: impl AsRef<Path>, labels: impl AsRef<Path>) -> Result<Pairs> {
    let (images, labels) = (images.as_ref(), labels.as_ref());
    let (x, y) = (read(images)?, read(labels)?);
    let (HostData::U8(pixels), &[n, h, w]) = (x.data(), x.shape().dims()) else {
        return Err(wrong(&x, "[n, h, w]").at(images.display()));
    };
    let (HostData::U8(classes), &[_]) = (y.data(), y.shape().dims()) else {
        return Err(wrong(&y, "[n]").at(labels.display()));
    };
    let x = HostTensor::from_vec(
        pixels.iter().map(|p| f32::from(*p) / 255.0).collect(),
        Shape::new(&[n, 1, h, w])?,
    )?;
    Pairs::new(x, HostTensor::from_vec(classes.iter().map(|c| i64::from(*c)).collect(), y.shape().clone())?)
}

fn wrong(t: &HostTensor, fits: &str) -> Error {
    Error::format(format!("idx: {} of {}; u8 of {fits} would fit", t.shape(), t.dtype()))
}

fn failed(e: std::io::Error) -> Error {
    match e.kind() {
        // The error kinds of a gzip decoder for damaged data.
        std::io::ErrorKind::InvalidInput | std::io::ErrorKind::InvalidData => {
            Error::format(format!("idx: {e}"))
        }
        std::io::ErrorKind::UnexpectedEof => Error::format("idx: the file ends too early"),
        _ => Error::from(e),
    }
}

fn decode(mut bytes: impl Read, limit: u64) -> Result<HostTensor> {
    let mut magic = [0; 4];
    bytes.read_exact(&mut magic).map_err(failed)?;
    let [0, 0, kind, rank] = magic else {
        return Err(Error::format("idx: the file does not begin with two bytes of 0: it is no IDX file"));
    };
    let size = match kind {
        0x08 | 0x09 => 1,
        0x0B => 2,
        0x0C | 0x0D => 4,
        0x0E => 8,
        other => return Err(Error::format(format!("idx: element type {other:#04x} does not exist"))),
    };
    let mut dims = Vec::with_capacity(usize::from(rank));
    for _ in 0..rank {
        let mut dim = [0; 4];
        bytes.read_exact(&mut dim).map_err(failed)?;
        dims.push(u32::from_be_bytes(dim) as usize);
    }
    let shape = Shape::new(&dims).map_err(|e| Error::format(format!("idx: {e}")))?;
    let wanted = (shape.numel() as u64).saturating_mul(size);
    if wanted > limit {
        return Err(Error::memory(format!(
            "idx: {shape} has {wanted} bytes of elements, more than the {limit} that are allowed"
        )));
    }
    let mut data = Vec::new();
    // One byte more than expected, to detect longer data.
    let mut rest = bytes.take(wanted + 1);
    let mut piece = [0; 1 << 16];
    loop {
        match rest.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                data.try_reserve(n).map_err(|_| Error::memory("idx: the elements do not fit into memory"))?;
                data.extend_from_slice(&piece[..n]);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(failed(e)),
        }
    }
    if data.len() as u64 != wanted {
        let seen = if data.len() as u64 > wanted { "more".to_owned() } else { data.len().to_string() };
        return Err(Error::format(format!(
            "idx: the elements of {shape} are {wanted} bytes, and the file has {seen}"
        )));
    }
    let data = match kind {
        0x08 => HostData::U8(data.into()),
        0x09 => HostData::I32(data.iter().map(|b| i32::from(*b as i8)).collect()),
        0x0B => HostData::I32(data.as_chunks().0.iter().map(|c| i32::from(i16::from_be_bytes(*c))).collect()),
        0x0C => HostData::I32(data.as_chunks().0.iter().map(|c| i32::from_be_bytes(*c)).collect()),
        0x0D => HostData::F32(data.as_chunks().0.iter().map(|c| f32::from_be_bytes(*c)).collect()),
        _ => HostData::F64(data.as_chunks().0.iter().map(|c| f64::from_be_bytes(*c)).collect()),
    };
    HostTensor::new(shape, data)
}
