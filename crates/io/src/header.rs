//! The header of a safetensors file: the tensors and the offsets of their bytes.
//!
//! Implemented here instead of using the crate `safetensors` (0.8), for these reasons:
//!
//! * it adds the end of the last tensor, which the file controls, to the header's length without a
//!   check: sizes near 2^64 panic where overflow is checked;
//! * of two entries with the same name and bytes it silently takes the last, so that a file can
//!   look different to two readers; here that is an error;
//! * it rejects a file with a single unknown element type; here only that tensor cannot be read;
//! * it keeps metadata in a hash map, so the bytes of a written file change from run to run;
//! * its errors about sizes do not name the tensor.
//!
//! The tests compare this implementation with it.

use crate::info::{StoredType, TensorInfo};
use elinvar_core::{DType, Error, HostTensor, Result, Shape};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The key that holds string metadata, so no tensor can have this name.
pub const METADATA: &str = "__metadata__";

/// Bytes of the integer at the start of a file: the header's length.
pub const LENGTH: u64 = 8;

/// The format's own limit for the header, in bytes: a damaged length cannot exhaust memory.
pub const MAX_HEADER: u64 = 100_000_000;

/// The types, by their names in files. The order is that of the data in a file: by descending
/// alignment, so that every tensor of a mapped file is aligned, then as in the format's own
/// library.
const NAMES: [(&str, DType); DType::ALL.len()] = [
    ("I64", DType::I64),
    ("F64", DType::F64),
    ("F32", DType::F32),
    ("I32", DType::I32),
    ("BF16", DType::BF16),
    ("F16", DType::F16),
    ("F8_E4M3", DType::F8E4M3),
    ("F8_E5M2", DType::F8E5M2),
    ("U8", DType::U8),
    ("BOOL", DType::Bool),
];

/// The header's entry of one tensor.
#[derive(Deserialize, Serialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// The JSON object at the start of a file, its entries in the file's order.
#[derive(Default)]
struct Header {
    metadata: BTreeMap<String, String>,
    tensors: Vec<(String, Entry)>,
}

/// A tensor in a file and where it begins.
#[derive(Debug)]
pub struct Planned {
    /// Its name, type, shape and size.
    pub info: TensorInfo,
    /// The offset of its first byte, counted from the end of the header.
    pub from: u64,
}

/// The header for these tensors, which are in the order of their names, and the order in which
/// their data has to follow.
pub fn write<'a>(
    tensors: &[(&str, &'a HostTensor)],
    metadata: &BTreeMap<String, String>,
) -> Result<(Vec<u8>, Vec<&'a HostTensor>)> {
    if tensors.iter().any(|(name, _)| *name == METADATA) {
        return Err(Error::argument(format!(
            "a tensor cannot be named `{METADATA}`: safetensors files keep their metadata under that name"
        )));
    }
    let mut sorted = tensors.to_vec();
    sorted.sort_by_key(|(_, t)| place(t.dtype()));
    let mut header = Header { metadata: metadata.clone(), tensors: Vec::with_capacity(sorted.len()) };
    let mut end = 0;
    for (name, tensor) in &sorted {
        let start = end;
        end += (tensor.shape().numel() * tensor.dtype().size()) as u64;
        let dtype = NAMES[place(tensor.dtype())].0.to_string();
        let entry = Entry { dtype, shape: tensor.shape().to_vec(), data_offsets: [start, end] };
        header.tensors.push((name.to_string(), entry));
    }
    let mut json =
        serde_json::to_vec(&header).map_err(|e| Error::format(format!("safetensors header: {e}")))?;
    // Spaces keep the data that follows aligned to 8 bytes.
    json.resize(json.len().next_multiple_of(8), b' ');
    if json.len() as u64 > MAX_HEADER {
        return Err(Error::argument(format!(
            "names and metadata take {} bytes; a safetensors header has at most {MAX_HEADER}",
            json.len()
        )));
    }
    Ok((json, sorted.into_iter().map(|(_, t)| t).collect()))
}

fn place(dtype: DType) -> usize {
    NAMES.iter().position(|(_, d)| *d == dtype).expect("every type has a name in files")
}

/// The lengths of the header and of the data behind it, from the first bytes of a file of `len`
/// bytes.
pub fn lengths(first: [u8; LENGTH as usize], len: u64) -> Result<(u64, u64)> {
    let header = u64::from_le_bytes(first);
    if header > MAX_HEADER {
        return Err(Error::format(format!(
            "a header of {header} bytes is announced, and a safetensors file has at most {MAX_HEADER}: it is \
             something else"
        )));
    }
    match (len - LENGTH).checked_sub(header) {
        Some(data) => Ok((header, data)),
        None => Err(Error::format(format!(
            "a header of {header} bytes is announced, but only {} bytes follow: the file was cut off",
            len - LENGTH
        ))),
    }
}

/// The error of a file that is too short for the header's length.
pub fn too_short(len: u64) -> Error {
    Error::format(format!(
        "{len} bytes are no safetensors file: it begins with {LENGTH} bytes that tell its header's length"
    ))
}

/// The tensors in the order in which their data follows, and the metadata. `data` is the length of
/// all data.
///
/// The tensors must cover the data without gaps and without sharing a byte, as the format demands.
pub fn read(json: &[u8], data: u64) -> Result<(Vec<Planned>, BTreeMap<String, String>)> {
    let Header { metadata, mut tensors } =
        serde_json::from_slice(json).map_err(|e| Error::format(format!("the header is damaged: {e}")))?;
    tensors.sort_by_key(|(_, e)| e.data_offsets);
    let (mut planned, mut end) = (Vec::with_capacity(tensors.len()), 0);
    for (name, entry) in tensors {
        let [from, to] = entry.data_offsets;
        // A shape that cannot be addressed is an error of the file's format, not of memory.
        let shape = Shape::new(&entry.shape)
            .map_err(|e| Error::format(format!("tensor `{name}`: {}", e.message())))?;
        let dtype = NAMES.iter().find(|(n, _)| *n == entry.dtype).map(|(_, d)| *d);
        // The size of an unknown type is unknown too: it is taken from the offsets.
        let bytes = match dtype {
            Some(dtype) => Some((shape.numel() * dtype.size()) as u64),
            None => to.checked_sub(from),
        };
        let wrong = |what: String| Err(Error::format(format!("tensor `{name}`: {what}")));
        let bytes = match bytes {
            Some(bytes) if to.checked_sub(from) == Some(bytes) => bytes,
            Some(bytes) => {
                return wrong(format!(
                    "{} {shape} takes {bytes} bytes, not bytes {from} to {to}",
                    entry.dtype
                ));
            }
            None => return wrong(format!("bytes {from} to {to} end before they begin")),
        };
        if from < end {
            return wrong(format!("bytes {from} to {to} overlap another tensor, which ends at {end}"));
        }
        if from > end {
            return wrong(format!("bytes {end} to {from} before it belong to no tensor"));
        }
        if to > data {
            return wrong(format!(
                "bytes {from} to {to} are asked for, but the file holds {data}: it was cut off"
            ));
        }
        end = to;
        let dtype = dtype.map_or(StoredType::Other(entry.dtype), StoredType::Known);
        planned.push(Planned { info: TensorInfo { name, dtype, shape, bytes }, from });
    }
    if end != data {
        return Err(Error::format(format!("{} bytes after the last tensor belong to no tensor", data - end)));
    }
    Ok((planned, metadata))
}

impl Serialize for Header {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        if !self.metadata.is_empty() {
            map.serialize_entry(METADATA, &self.metadata)?;
        }
        for (name, entry) in &self.tensors {
            map.serialize_entry(name, entry)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(Entries)
    }
}

/// Reads entry by entry: a map would silently keep the last of two entries of the same name.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an entry for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let (mut header, mut seen) = (Header::default(), std::collections::HashSet::new());
        while let Some(name) = map.next_key::<String>()? {
            let at = |e: A::Error| A::Error::custom(format!("`{name}`: {e}"));
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!("`{name}` is there twice")));
            }
            if name == METADATA {
                header.metadata = map.next_value().map_err(at)?;
            } else {
                let entry = map.next_value().map_err(at)?;
                header.tensors.push((name, entry));
            }
        }
        Ok(header)
    }
}
