//! The header of a `.npy` file: `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
//!
//! Parsed here instead of by `npyz` or `ndarray-npy`: both parse a general Python literal, which
//! needs a generated parser and big integers, and their arrays are generic over the element type.
//! The header is one flat dictionary with three known keys; the only nested value, the description
//! of a structured type, is skipped by counting brackets.

use crate::info::{StoredType, TensorInfo};
use crate::npy::at_most;
use elinvar_core::{DType, Error, Result, Shape, storage};
use std::io::Read;

/// The first bytes of every file.
pub const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// The largest header that is read, in bytes. Version 1.0 has at most 65 535; only structured types
/// need more.
const MAX_HEADER: usize = 1 << 20;

/// NumPy starts the elements at a multiple of this, so that they are aligned for SIMD in a mapped
/// file.
const ALIGN: usize = 64;

/// NumPy reserves space for the first size to grow to this many digits.
const GROWTH: usize = 21;

/// The contents of a header.
#[derive(Debug)]
pub struct NpyHeader {
    /// The element type; if elinvar does not have it, its description.
    dtype: StoredType,
    /// Are the elements big-endian?
    pub big_endian: bool,
    /// Is the array column-major?
    pub fortran: bool,
    /// The shape.
    pub shape: Shape,
    /// The offset of the elements, in bytes.
    pub len: usize,
}

impl NpyHeader {
    /// The array called `name`, whose elements take `bytes` bytes.
    pub fn info(&self, name: &str, bytes: u64) -> Result<TensorInfo> {
        if let StoredType::Known(dtype) = self.dtype {
            let want = (self.shape.numel() * dtype.size()) as u64;
            if want != bytes {
                let why = if want > bytes { "it was cut off" } else { "there is something after the array" };
                return Err(Error::format(format!(
                    "{dtype} {} takes {want} bytes, and {bytes} follow the header: {why}",
                    self.shape
                )));
            }
        }
        Ok(TensorInfo { name: name.into(), dtype: self.dtype.clone(), shape: self.shape.clone(), bytes })
    }
}

/// Reads a header; the elements follow in the reader.
pub fn read(reader: &mut dyn Read) -> Result<NpyHeader> {
    let start = at_most(reader, 8)?;
    let Some((magic, &[major, minor])) = start.split_last_chunk().filter(|(magic, _)| magic == MAGIC) else {
        return Err(Error::format("this is no .npy file: it does not begin with \"\\x93NUMPY\""));
    };
    let digits = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => {
            return Err(Error::unsupported(format!(
                ".npy version {major}.{minor}; those that can be read are 1.0, 2.0 and 3.0"
            )));
        }
    };
    let cut_off = || Error::format("the header of the .npy file is cut off");
    let mut length = [0; 4];
    let given = at_most(reader, digits)?;
    length
        .get_mut(..given.len())
        .filter(|l| l.len() == digits as usize)
        .ok_or_else(cut_off)?
        .copy_from_slice(&given);
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(Error::format(format!(
            "a .npy header of {length} bytes is announced; the longest that is read has {MAX_HEADER}"
        )));
    }
    let text = at_most(reader, length as u64)?;
    if text.len() != length {
        return Err(cut_off());
    }
    let len = magic.len() + 2 + digits as usize + length;
    let parsed = Text { text: &text, at: 0 }.header().map_err(|what| {
        // Untrusted text in an error message: quoted and truncated.
        let shown = String::from_utf8_lossy(&text[..text.len().min(120)]).into_owned();
        Error::format(format!("the .npy header {:?} cannot be read: {what}", shown.trim_end()))
    })?;
    let (dtype, big_endian) = described(&parsed.descr);
    let shape = Shape::new(&parsed.shape).map_err(|e| Error::format(e.message()))?;
    Ok(NpyHeader { dtype, big_endian, fortran: parsed.fortran, shape, len })
}

/// The header of a file for little-endian, row-major elements, as NumPy writes it.
pub fn write(dtype: DType, shape: &Shape) -> Result<Vec<u8>> {
    let descr = match dtype {
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
        storage!(DType) => {
            return Err(Error::unsupported(format!(
                "NumPy has no {dtype}; convert the tensor to f32, which loses nothing, or write safetensors"
            )));
        }
    };
    // A tuple of one element ends with a comma.
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let mut text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", sizes.join(", "));
    if let Some(first) = sizes.first() {
        text.extend(std::iter::repeat_n(' ', GROWTH - first.len()));
    }
    // Version 1.0 if it is long enough; no shape that fits into memory needs another one, but a
    // shape may have 1s.
    let padded = |digits: usize| {
        let before = MAGIC.len() + 2 + digits;
        // At least one byte, for the newline; NumPy adds a whole block if the length is a multiple
        // already.
        (before + text.len() + 1) / ALIGN * ALIGN + ALIGN - before
    };
    let mut out = MAGIC.to_vec();
    match u16::try_from(padded(2)) {
        Ok(length) => {
            out.extend([1, 0]);
            out.extend(length.to_le_bytes());
        }
        Err(_) => {
            let length = u32::try_from(padded(4)).ok().filter(|&l| l as usize <= MAX_HEADER);
            let length = length
                .ok_or_else(|| Error::argument(format!("{} axes are too many for .npy", shape.rank())))?;
            out.extend([2, 0]);
            out.extend(length.to_le_bytes());
        }
    }
    out.extend(text.as_bytes());
    out.resize((out.len() + 1) / ALIGN * ALIGN + ALIGN - 1, b' ');
    out.push(b'\n');
    Ok(out)
}

/// The type of a description such as `<f4`, and whether its bytes are in big-endian order.
fn described(descr: &str) -> (StoredType, bool) {
    let other = || (StoredType::Other(descr.to_string()), false);
    let Some(kind) = descr.get(1..) else { return other() };
    let dtype = match kind {
        "f4" => DType::F32,
        "f8" => DType::F64,
        "f2" => DType::F16,
        "i8" => DType::I64,
        "i4" => DType::I32,
        "u1" => DType::U8,
        "b1" => DType::Bool,
        _ => return other(),
    };
    match (descr.as_bytes()[0], dtype.size()) {
        // Types of one byte have no byte order.
        (b'|' | b'<' | b'>' | b'=', 1) | (b'<', _) => (StoredType::Known(dtype), false),
        (b'>', _) => (StoredType::Known(dtype), true),
        // `=` is the order of the machine that wrote the file, and the file does not say which.
        _ => other(),
    }
}

/// The three entries.
struct Parsed {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

/// A parser of the dictionary: the text and the position. Errors complete a sentence.
struct Text<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Text<'a> {
    fn header(mut self) -> Result<Parsed, String> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.accept(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            let twice = match key {
                b"descr" => descr.replace(self.descr()?).is_some(),
                b"fortran_order" => fortran.replace(self.truth()?).is_some(),
                b"shape" => shape.replace(self.sizes()?).is_some(),
                _ => return Err(format!("the key {:?} is unknown", String::from_utf8_lossy(key))),
            };
            if twice {
                return Err(format!("the key {:?} is there twice", String::from_utf8_lossy(key)));
            }
            if !self.accept(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        if self.peek().is_some() {
            return Err("something follows the dictionary".into());
        }
        match (descr, fortran, shape) {
            (Some(descr), Some(fortran), Some(shape)) => Ok(Parsed { descr, fortran, shape }),
            _ => Err("'descr', 'fortran_order' and 'shape' must all be there".into()),
        }
    }

    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let yes = self.peek() == Some(byte);
        self.at += usize::from(yes);
        yes
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        match self.accept(byte) {
            true => Ok(()),
            false => Err(format!("{:?} is missing at byte {}", byte as char, self.at)),
        }
    }

    /// A string in quotes of either kind. NumPy never writes a backslash here.
    fn string(&mut self) -> Result<&'a [u8], String> {
        let quote = self.peek().filter(|q| matches!(q, b'\'' | b'"'));
        let quote = quote.ok_or_else(|| format!("a string is missing at byte {}", self.at))?;
        let rest = &self.text[self.at + 1..];
        let end = rest.iter().position(|&b| b == quote || b == b'\\').filter(|&end| rest[end] == quote);
        let end = end.ok_or_else(|| format!("the string at byte {} has no end", self.at))?;
        self.at += end + 2;
        Ok(&rest[..end])
    }

    /// A string, or the list that describes a structured type, verbatim.
    fn descr(&mut self) -> Result<String, String> {
        let start = match self.peek() {
            Some(b'[' | b'(') => self.at,
            _ => return Ok(String::from_utf8_lossy(self.string()?).into_owned()),
        };
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some(b'[' | b'(') => depth += 1,
                Some(b']' | b')') => depth -= 1,
                Some(b'\'' | b'"') => {
                    self.string()?;
                    continue;
                }
                Some(_) => {}
                None => return Err(format!("the list at byte {start} has no end")),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned());
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        self.peek();
        let yes = self.text[self.at..].starts_with(word.as_bytes());
        self.at += if yes { word.len() } else { 0 };
        yes
    }

    fn truth(&mut self) -> Result<bool, String> {
        match (self.word("True"), self.word("False")) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            _ => Err(format!("True or False is missing at byte {}", self.at)),
        }
    }

    fn sizes(&mut self) -> Result<Vec<usize>, String> {
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.accept(b')') {
            sizes.push(self.size()?);
            if !self.accept(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn size(&mut self) -> Result<usize, String> {
        self.peek();
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        // Python 2 appends L to long integers.
        self.at += usize::from(self.text.get(self.at) == Some(&b'L'));
        digits.parse().map_err(|_| format!("the size at byte {start} is not a number that can be addressed"))
    }
}
