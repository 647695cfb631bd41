//! Thousands of damaged files: each gives a value or an error, never a panic, and needs little
//! memory.
//!
//! Valid files are mutated, reproducibly: bits, bytes, numbers at their limits, pieces removed,
//! duplicated or moved. The fuzz targets in `fuzz/` go further, guided by coverage.

use cap::Cap;
use elinvar_core::philox::Stream;
use elinvar_core::{HostData, HostTensor, Shape};
use elinvar_io::{
    SafetensorsFile, ShardIndex, read_npy, read_npz, read_safetensors, write_npy, write_npz,
    write_safetensors,
};
use std::alloc::System;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// The total that a reader may allocate for a file of `len` bytes. Measured: 15 kB for a
/// safetensors file of 1.9 kB that is read twice, 8 kB for an array of 2.1 kB, 6 kB for an index of
/// 0.7 kB.
fn allowed(len: usize) -> usize {
    (1 << 15) + 32 * len
}

/// Deflate expands up to 1032 times: the bytes are collected in a vector that doubles its size,
/// become a tensor, and may be reordered. Measured: 360 kB for 0.9 kB, most of it the windows of
/// the decompressor, two for each array.
fn allowed_packed(len: usize) -> usize {
    allowed(len) + 1032 * 4 * len
}

/// Chosen so that each reader takes well below a second in a debug build.
const ROUNDS: u32 = 5000;

fn tensors() -> BTreeMap<String, HostTensor> {
    let rows: [(&str, &[usize], HostData); 4] = [
        ("a", &[2, 2], HostData::F32([1.0, -0.0, f32::INFINITY, 4.0].into())),
        ("b.weight", &[3], HostData::I64([1, 2, i64::MIN].into())),
        ("c", &[], HostData::Bool([true].into())),
        ("d", &[40, 5], HostData::F64(vec![0.0; 200].into())),
    ];
    rows.into_iter()
        .map(|(n, s, d)| (n.to_string(), HostTensor::new(Shape::new(s).unwrap(), d).unwrap()))
        .collect()
}

/// A sequence of random numbers.
struct Dice {
    stream: Stream,
    next: u64,
}

impl Dice {
    fn roll(&mut self) -> u64 {
        self.next += 1;
        self.stream.word64(self.next)
    }
    /// In 0..n, or 0.
    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }
}

/// Numbers at the limits of integer types, as bytes and as text.
const LIMITS: [u64; 8] = [0, 1, 0x7fff_ffff, 0xffff_ffff, 1 << 61, i64::MAX as u64, u64::MAX - 7, u64::MAX];

fn damaged(file: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=dice.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = dice.below(bytes.len());
        let to = (at + dice.below(16)).min(bytes.len());
        match dice.below(9) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = dice.roll() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to)),
            4 => {
                let piece = bytes[at..to].to_vec();
                let there = dice.below(bytes.len());
                bytes.splice(there..there, piece);
            }
            5 => {
                let limit = LIMITS[dice.below(8)].to_le_bytes();
                let n = [2, 4, 8][dice.below(3)].min(bytes.len() - at);
                bytes[at..at + n].copy_from_slice(&limit[..n]);
            }
            6 => {
                // Replaces a number in the text.
                let digit = |b: &u8| b.is_ascii_digit();
                let Some(from) = bytes[at..].iter().position(digit).map(|i| at + i) else { continue };
                let end = from + bytes[from..].iter().take_while(|b| digit(b)).count();
                bytes.splice(from..end, LIMITS[dice.below(8)].to_string().into_bytes());
            }
            7 => {
                let sign = br#"{}[](),:"'\ "#[dice.below(12)];
                let many = [1, 2, 300][dice.below(3)];
                bytes.splice(at..at, vec![sign; many]);
            }
            _ => bytes.extend_from_slice(&vec![0; dice.below(100)]),
        }
    }
    bytes
}

/// Mutates `files` and reads the results.
fn hold(stream: u64, files: &[Vec<u8>], allowed: fn(usize) -> usize, read: impl Fn(&[u8]) -> bool) {
    for file in files {
        assert!(read(file), "the file is read while it is not damaged");
    }
    let mut dice = Dice { stream: Stream { seed: 7, stream }, next: 0 };
    let mut good = 0;
    for round in 0..ROUNDS {
        let bytes = damaged(&files[round as usize % files.len()], &mut dice);
        let before = MEMORY.total_allocated();
        let read = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
        let took = MEMORY.total_allocated() - before;
        assert!(read.is_ok(), "round {round} panics on {:?}", bytes.escape_ascii().to_string());
        assert!(
            took <= allowed(bytes.len()),
            "round {round} takes {took} bytes for {}: {:?}",
            bytes.len(),
            bytes.escape_ascii().to_string()
        );
        good += u32::from(read.unwrap_or(false));
    }
    // If all files were rejected at the first byte, nothing would be tested.
    assert!(good > ROUNDS / 50, "only {good} of {ROUNDS} damaged files can be read");
}

/// One test, because allocations are counted for the whole process.
#[test]
fn no_file_makes_a_reader_panic_or_take_much_memory() {
    let tensors = tensors();
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    let mut file = Vec::new();
    write_safetensors(&mut file, &tensors, &metadata).unwrap();
    hold(1, &[file], allowed, |bytes| {
        let whole = read_safetensors(&mut &bytes[..], bytes.len() as u64);
        let Ok(file) = SafetensorsFile::from_bytes(bytes.to_vec()) else {
            assert!(whole.is_err(), "two ways to read one file");
            return false;
        };
        let single = file.tensors().try_for_each(|t| file.tensor(&t.name).map(drop));
        assert_eq!(single.is_ok(), whole.is_ok(), "two ways to read one file");
        single.is_ok()
    });
    let index = br#"{"metadata": {"total_size": 41}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}"#;
    hold(2, &[index.to_vec()], allowed, |bytes| ShardIndex::parse(bytes).is_ok());
    let arrays = tensors.values().map(|t| {
        let mut file = Vec::new();
        write_npy(&mut file, t).unwrap();
        file
    });
    let mut arrays: Vec<_> = arrays.collect();
    for name in ["fortran_big", "v2"] {
        let path = format!("{}/tests/data/{name}.npy", env!("CARGO_MANIFEST_DIR"));
        arrays.push(std::fs::read(path).unwrap());
    }
    hold(3, &arrays, allowed, |bytes| read_npy(bytes).is_ok());
    let archives = [false, true].map(|deflate| {
        let mut file = Vec::new();
        write_npz(&mut file, &tensors, deflate).unwrap();
        file
    });
    hold(4, &archives, allowed_packed, |bytes| read_npz(bytes).is_ok());
}
