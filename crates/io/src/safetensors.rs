//! Safetensors files: eight bytes with the header's length, a JSON header, then the elements.
//!
//! The same tensors and metadata always give the same bytes, and untrusted files are checked before
//! tensors are created: the header must fit the data.

use crate::header::{self, LENGTH, Planned, lengths, too_short};
use crate::{atomic_write, io_error};
use elinvar_core::host::filled;
use elinvar_core::{Error, HostData, HostTensor, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::path::Path;

/// The contents of a safetensors file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Safetensors {
    /// The tensors by name.
    pub tensors: BTreeMap<String, HostTensor>,
    /// Free text by key.
    pub metadata: BTreeMap<String, String>,
}

/// Reads a safetensors file as a whole. [`SafetensorsFile`](crate::SafetensorsFile) reads single
/// tensors of it.
///
/// # Errors
/// `Io` if it cannot be read; `Format` if it is damaged; `Unsupported` if a tensor has a type that
/// elinvar does not have, such as an 8-bit float; `OutOfMemory`. The path is in the sentence.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<Safetensors> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|e| io_error(path, e))?;
    let len = file.metadata().map_err(|e| io_error(path, e))?.len();
    read_safetensors(&mut BufReader::new(file), len).map_err(|e| e.at(path.display()))
}

/// Reads what [`write_safetensors`] wrote, `len` bytes in all.
///
/// # Errors
/// As [`load_safetensors`].
pub fn read_safetensors(reader: &mut dyn Read, len: u64) -> Result<Safetensors> {
    if len < LENGTH {
        return Err(too_short(len));
    }
    let mut first = [0; LENGTH as usize];
    fill(reader, &mut first)?;
    let (header, data) = lengths(first, len)?;
    let (planned, metadata) = header::read(&bytes(reader, header)?, data)?;
    let mut tensors = BTreeMap::new();
    for Planned { info, .. } in planned {
        let dtype = info.known()?;
        let data = HostData::from_le_bytes(dtype, &bytes(reader, info.bytes)?)?;
        tensors.insert(info.name, HostTensor::new(info.shape, data)?);
    }
    Ok(Safetensors { tensors, metadata })
}

/// The next `n` bytes; `n` was checked against the file's length.
fn bytes(reader: &mut dyn Read, n: u64) -> Result<Vec<u8>> {
    let n = usize::try_from(n).map_err(|_| Error::memory(format!("{n} bytes cannot be addressed here")))?;
    let mut bytes = filled(n, 0)?;
    fill(reader, &mut bytes)?;
    Ok(bytes)
}

fn fill(reader: &mut dyn Read, bytes: &mut [u8]) -> Result<()> {
    reader.read_exact(bytes).map_err(|e| match e.kind() {
        ErrorKind::UnexpectedEof => Error::format("the file became shorter while it was read"),
        _ => e.into(),
    })
}

/// Writes a safetensors file; it replaces an older one only when it is complete.
///
/// # Errors
/// `Io` with the path, if it cannot be written; the older file is then untouched. `InvalidArgument`
/// if a tensor is named `__metadata__` or the names and metadata take more than 100 MB.
pub fn save_safetensors(
    path: impl AsRef<Path>,
    tensors: &BTreeMap<String, HostTensor>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    atomic_write(path, |w| write_safetensors(w, tensors, metadata))
}

/// Writes the bytes of a safetensors file: always the same ones for the same tensors and metadata.
///
/// # Errors
/// As [`save_safetensors`].
pub fn write_safetensors(
    writer: &mut dyn Write,
    tensors: &BTreeMap<String, HostTensor>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    write_some(writer, &tensors.iter().map(|(name, t)| (name.as_str(), t)).collect::<Vec<_>>(), metadata)
}

/// As [`write_safetensors`], for an iterator of tensors in the order of their names.
pub(crate) fn write_some(
    writer: &mut dyn Write,
    tensors: &[(&str, &HostTensor)],
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let (header, sorted) = header::write(tensors, metadata)?;
    writer.write_all(&(header.len() as u64).to_le_bytes())?;
    writer.write_all(&header)?;
    for tensor in sorted {
        writer.write_all(&tensor.data().to_le_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::ErrorKind::{Format, InvalidArgument, Io, Unsupported};
    use elinvar_core::{DType, Shape, bf16, f8e4m3, f8e5m2, f16};
    use std::collections::HashMap;

    fn tensor(shape: &[usize], data: HostData) -> HostTensor {
        HostTensor::new(Shape::new(shape).unwrap(), data).unwrap()
    }

    /// Every type, a scalar, an empty tensor, and bits that a careless conversion would lose.
    fn all() -> BTreeMap<String, HostTensor> {
        let rows: [(&str, &[usize], HostData); 13] = [
            ("f32", &[2, 2], HostData::F32([-0.0, f32::INFINITY, 1e-45, 1.5].into())),
            ("f64", &[1], HostData::F64([5e-324].into())),
            ("f16", &[3], HostData::F16([f16::MAX, f16::NEG_ZERO, f16::from_bits(1)].into())),
            ("bf16", &[1, 1, 1], HostData::BF16([bf16::MIN_POSITIVE].into())),
            ("f8e4m3", &[3], HostData::F8E4M3([0, 0x7e, 0x81].map(f8e4m3::from_bits).into())),
            ("f8e5m2", &[3], HostData::F8E5M2([0x7c, 0x80, 1].map(f8e5m2::from_bits).into())),
            ("i64", &[2], HostData::I64([i64::MIN, i64::MAX].into())),
            ("i32", &[2], HostData::I32([i32::MIN, -1].into())),
            ("u8", &[3], HostData::U8([0, 7, 255].into())),
            ("bool", &[2], HostData::Bool([true, false].into())),
            ("scalar", &[], HostData::F32([3.0].into())),
            ("empty", &[4, 0, 3], HostData::F32([].into())),
            ("ein \"Name\" mit Ä\n", &[1], HostData::F32([1.0].into())),
        ];
        rows.into_iter().map(|(n, s, d)| (n.to_string(), tensor(s, d))).collect()
    }

    fn metadata(keys: &[&str]) -> BTreeMap<String, String> {
        keys.iter().map(|k| (k.to_string(), format!("value of {k}"))).collect()
    }

    fn encode(tensors: &BTreeMap<String, HostTensor>, metadata: &BTreeMap<String, String>) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_safetensors(&mut bytes, tensors, metadata).unwrap();
        bytes
    }

    #[test]
    fn save_and_load_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.safetensors");
        for (tensors, metadata) in [(all(), metadata(&["b", "a", "c"])), Default::default()] {
            save_safetensors(&path, &tensors, &metadata).unwrap();
            assert_eq!(load_safetensors(&path).unwrap(), Safetensors { tensors, metadata });
        }
    }

    #[test]
    fn a_nan_keeps_its_bits() {
        let bits = 0xffa0_1234;
        let tensors =
            BTreeMap::from([("x".into(), tensor(&[1], HostData::F32([f32::from_bits(bits)].into())))]);
        let bytes = encode(&tensors, &BTreeMap::new());
        let back = read_safetensors(&mut &bytes[..], bytes.len() as u64).unwrap();
        assert_eq!(back.tensors["x"].as_slice::<f32>().unwrap()[0].to_bits(), bits);
    }

    /// Byte for byte what the format's own library writes. One metadata key only, because it does
    /// not order several.
    #[test]
    fn equals_the_formats_own_library() {
        use ::safetensors::Dtype;
        let dtype = |d: DType| match d {
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::F8E4M3 => Dtype::F8_E4M3,
            DType::F8E5M2 => Dtype::F8_E5M2,
            DType::I64 => Dtype::I64,
            DType::I32 => Dtype::I32,
            DType::U8 => Dtype::U8,
            DType::Bool => Dtype::BOOL,
        };
        let (tensors, metadata) = (all(), metadata(&["key"]));
        let data: Vec<_> = tensors.values().map(|t| t.data().to_le_bytes()).collect();
        let views = tensors.iter().zip(&data).map(|((name, t), bytes)| {
            let view = ::safetensors::tensor::TensorView::new(dtype(t.dtype()), t.shape().to_vec(), bytes);
            (name.clone(), view.unwrap())
        });
        let theirs = ::safetensors::serialize(views, Some(HashMap::from_iter(metadata.clone()))).unwrap();
        assert_eq!(String::from_utf8_lossy(&encode(&tensors, &metadata)), String::from_utf8_lossy(&theirs));
        assert_eq!(encode(&tensors, &metadata), theirs);
        assert_eq!(
            read_safetensors(&mut &theirs[..], theirs.len() as u64).unwrap(),
            Safetensors { tensors, metadata }
        );
    }

    #[test]
    fn several_metadata_keys_are_in_order() {
        let bytes = encode(&BTreeMap::new(), &metadata(&["b", "c", "a"]));
        let header = r#"{"__metadata__":{"a":"value of a","b":"value of b","c":"value of c"}}"#;
        assert!(bytes[8..].starts_with(header.as_bytes()), "{}", String::from_utf8_lossy(&bytes));
    }

    /// A file with this header and `data` bytes of data.
    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    /// Entry `name` of type F32, shape and offsets as given.
    fn f32(name: &str, shape: &str, from: u64, to: u64) -> String {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    }

    #[test]
    fn each_damage_of_a_file_has_its_error() {
        // Eight tensors that end just below 2^64: no sum of their sizes may overflow.
        let edge = (0..8u64).map(|i| (i << 61, if i < 7 { (i + 1) << 61 } else { u64::MAX - 7 }));
        let edge = edge.map(|(from, to)| {
            format!(
                r#""{from}":{{"dtype":"F64","shape":[{}],"data_offsets":[{from},{to}]}}"#,
                (to - from) / 8
            )
        });
        let edge = format!("{{{}}}", edge.collect::<Vec<_>>().join(","));
        let two = |second: String| format!("{{{},{second}}}", f32("a", "[2]", 0, 8));
        let one = |dtype: &str, shape: &str, to: u64| {
            format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{to}]}}}}"#)
        };
        let good = file(&one("F32", "[2]", 8), 8);
        assert!(read_safetensors(&mut &good[..], good.len() as u64).is_ok());
        let mut no_utf8 = good.clone();
        no_utf8[11] = 0xff;
        let rows = [
            (vec![], Format, "0 bytes are no safetensors file: it begins with 8 bytes"),
            (vec![1; 7], Format, "7 bytes are no safetensors file"),
            (vec![0; 8], Format, "the header is damaged: EOF while parsing"),
            (
                vec![0xff; 100],
                Format,
                "a header of 18446744073709551615 bytes is announced, and a safetensors",
            ),
            (
                vec![9, 0, 0, 0, 0, 0, 0, 0, b'{'],
                Format,
                "a header of 9 bytes is announced, but only 1 bytes follow",
            ),
            (
                good[..good.len() - 1].to_vec(),
                Format,
                "tensor `a`: bytes 0 to 8 are asked for, but the file holds 7",
            ),
            ([&good[..], &[0; 3]].concat(), Format, "3 bytes after the last tensor belong to no tensor"),
            (no_utf8, Format, "the header is damaged: invalid unicode"),
            (
                file("[]", 0),
                Format,
                "the header is damaged: invalid type: sequence, expected an object with an entry",
            ),
            (file("{}}", 0), Format, "the header is damaged: trailing characters"),
            (file(r#"{"a":3}"#, 0), Format, "the header is damaged: `a`: invalid type"),
            (file(&two(f32("a", "[2]", 8, 16)), 16), Format, "the header is damaged: `a` is there twice"),
            (
                file(r#"{"__metadata__":{"a":1}}"#, 0),
                Format,
                "the header is damaged: `__metadata__`: invalid type",
            ),
            (
                file(&one("F32", "[-2]", 8), 8),
                Format,
                "the header is damaged: `a`: invalid value: integer `-2`",
            ),
            (
                file(&one("F32", "[2.5]", 8), 8),
                Format,
                "the header is damaged: `a`: invalid type: floating point",
            ),
            (file(&one("F32", "[1e30]", 8), 8), Format, "the header is damaged: `a`: "),
            (
                file(&two(f32("b", "[2]", 4, 12)), 12),
                Format,
                "tensor `b`: bytes 4 to 12 overlap another tensor",
            ),
            (file(&two(f32("b", "[2]", 0, 8)), 8), Format, "overlap another tensor, which ends at 8"),
            (
                file(&two(f32("b", "[2]", 9, 17)), 17),
                Format,
                "tensor `b`: bytes 8 to 9 before it belong to no",
            ),
            (file(&one("F32", "[3]", 8), 8), Format, "tensor `a`: F32 [3] takes 12 bytes, not bytes 0 to 8"),
            (file(&one("BOOL", "[]", 0), 0), Format, "tensor `a`: BOOL [] takes 1 bytes, not bytes 0 to 0"),
            (
                file(&format!("{{{}}}", f32("a", "[0]", 8, 0)), 8),
                Format,
                "tensor `a`: F32 [0] takes 0 bytes, not",
            ),
            (
                file(&one("F32", "[4294967296,4294967296]", 0), 0),
                Format,
                "tensor `a`: shape [4294967296, 4294967296]",
            ),
            (
                file(&one("F32", "[0,4294967296,4294967296]", 0), 0),
                Format,
                "tensor `a`: shape [0, 4294967296, 4294",
            ),
            (
                file(&one("U8", "[1000000000000]", 1_000_000_000_000), 8),
                Format,
                "but the file holds 8: it was cut off",
            ),
            (
                file(&edge, 8),
                Format,
                "tensor `0`: bytes 0 to 2305843009213693952 are asked for, but the file holds 8",
            ),
            (
                file(&one("F8_E8M0", "[8]", 8), 8),
                Unsupported,
                "tensor `a` has elements of type \"F8_E8M0\"; the types",
            ),
            (file(&one("U16", "[4]", 8), 8), Unsupported, "tensor `a` has elements of type \"U16\""),
        ];
        for (bytes, kind, sentence) in rows {
            let e = read_safetensors(&mut &bytes[..], bytes.len() as u64).unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            assert!(
                e.message().contains(sentence) && !e.message().contains('\n'),
                "{e}\nexpected: {sentence}"
            );
        }
    }

    /// A truncated file is an error; a file with a damaged byte is accepted if and only if the
    /// format's own library accepts it, but for a bool that is neither 0 nor 1.
    #[test]
    fn damage_is_found_as_by_the_formats_own_library() {
        let bytes = encode(&all(), &metadata(&["a"]));
        for n in 0..bytes.len() {
            assert!(read_safetensors(&mut &bytes[..n], n as u64).is_err(), "cut to {n} bytes");
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[n] ^= flip;
                let ours = read_safetensors(&mut &damaged[..], damaged.len() as u64);
                let theirs = ::safetensors::SafeTensors::deserialize(&damaged);
                let same = match (&ours, &theirs) {
                    (Ok(ours), Ok(theirs)) => ours.tensors.len() == theirs.len(),
                    // That library does not look at values.
                    (Err(e), Ok(_)) => e.kind() == Unsupported || e.message().contains("tensor of bool"),
                    (Err(_), Err(_)) => true,
                    (Ok(_), Err(_)) => false,
                };
                assert!(same, "byte {n}, {flip:#x}: ours {ours:?}, theirs {theirs:?}");
            }
        }
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let damaged = dir.path().join("damaged");
        std::fs::write(&damaged, "text").unwrap();
        let missing = dir.path().join("missing/w.safetensors");
        let reserved = BTreeMap::from([("__metadata__".to_string(), tensor(&[], HostData::U8([1].into())))]);
        let none = BTreeMap::new();
        let rows = [
            (load_safetensors(&missing).map(drop), Io, &missing),
            (load_safetensors(&damaged).map(drop), Format, &damaged),
            (load_safetensors(dir.path()).map(drop), Io, &dir.path().to_path_buf()),
            (save_safetensors(&missing, &all(), &none), Io, &missing),
            (save_safetensors(&damaged, &reserved, &none), InvalidArgument, &damaged),
        ];
        for (result, kind, path) in rows {
            let e = result.unwrap_err();
            assert_eq!(e.kind(), kind, "{e}");
            assert!(e.message().starts_with(&path.display().to_string()), "{e}");
        }
        assert_eq!(std::fs::read(&damaged).unwrap(), b"text", "a save that fails leaves the old file");
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let bytes = encode(&all(), &BTreeMap::new());
        let e = read_safetensors(&mut &bytes[..bytes.len() - 1], bytes.len() as u64).unwrap_err();
        assert_eq!((e.kind(), e.message()), (Format, "the file became shorter while it was read"));
    }
}
