//! Names of registers, constants and parameters as columns.

use emulated_gpu::inst::Column;
use emulated_gpu::program::{Param, Special};
use std::collections::HashMap;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    Narrow,
    Wide,
    Predicate,
}

/// All names of an entry.
#[derive(Default)]
pub struct Files {
    /// By the prefix of a register: its file, the first column, the count.
    registers: HashMap<String, (File, Column, Column)>,
    /// How many columns each file has.
    pub columns: HashMap<File, Column>,
    pub constants: HashMap<(File, u64), Column>,
    pub specials: Vec<(Column, Special)>,
    pub params: Vec<(String, File, Param)>,
    /// Offset of each parameter that is a byte array.
    pub blobs: HashMap<String, usize>,
    /// Offset of each shared variable.
    pub shared: HashMap<String, usize>,
    /// Registers that were written.
    written: HashMap<(File, Column), ()>,
}

impl Files {
    pub fn new_columns(&mut self, file: File, count: Column) -> Column {
        let all = self.columns.entry(file).or_insert(0);
        *all += count;
        *all - count
    }
    /// Declares registers.
    pub fn declare(&mut self, ty: &str, name: &str, count: Column) -> Result<(), String> {
        let file = match ty {
            "pred" => File::Predicate,
            "b16" | "b32" | "f32" | "u32" | "s32" | "u16" | "s16" => File::Narrow,
            "b64" | "f64" | "u64" | "s64" => File::Wide,
            _ => return Err(format!("registers of type {ty}")),
        };
        let first = self.new_columns(file, count);
        match self.registers.insert(name.to_string(), (file, first, count)) {
            Some(_) => Err(format!("{name} is declared twice")),
            None => Ok(()),
        }
    }
    fn register(&self, text: &str) -> Option<(File, Column)> {
        let split = text.find(|c: char| c.is_ascii_digit())?;
        let &(file, first, count) = self.registers.get(&text[..split])?;
        let n: Column = text[split..].parse().ok()?;
        (n < count).then_some((file, first + n))
    }
    fn constant(&mut self, file: File, bits: u64) -> Column {
        match self.constants.get(&(file, bits)) {
            Some(&c) => c,
            None => {
                let c = self.new_columns(file, 1);
                self.constants.insert((file, bits), c);
                c
            }
        }
    }

    /// A destination register.
    pub fn target(&mut self, file: File, text: &str) -> Result<Column, String> {
        match self.register(text) {
            Some((f, c)) if f == file => {
                self.written.insert((f, c), ());
                Ok(c)
            }
            Some((f, _)) => Err(format!("{text} is a register of {f:?}, and {file:?} is written")),
            None => Err(format!("{text} is no register")),
        }
    }
    /// A source operand: a register, a literal, the address of a parameter, shared memory, or a
    /// special register.
    pub fn source(&mut self, file: File, text: &str) -> Result<Column, String> {
        if let Some((f, c)) = self.register(text) {
            if f != file {
                return Err(format!("{text} is a register of {f:?}, and {file:?} is read"));
            }
            if !self.written.contains_key(&(f, c)) {
                return Err(format!("{text} is read before it is written"));
            }
            return Ok(c);
        }
        let (name, more) = text.split_once('+').unwrap_or((text, "0"));
        if let Some(&at) = self.shared.get(name) {
            let more = number(more).ok_or_else(|| format!("what is {more}?"))?;
            return Ok(self.constant(file, at as u64 + more));
        }
        if let Some(&at) = self.blobs.get(text) {
            return if file == File::Wide {
                Ok(self.constant(file, at as u64))
            } else {
                Err(format!("{text} has 64 bits"))
            };
        }
        if let Some(special) = special(text) {
            let c = self.new_columns(File::Narrow, 1);
            self.specials.push((c, special));
            return if file == File::Narrow { Ok(c) } else { Err(format!("{text} has 32 bits")) };
        }
        let bits = number(text).ok_or_else(|| format!("what is {text}?"))?;
        Ok(self.constant(file, if file == File::Narrow { bits & 0xffff_ffff } else { bits }))
    }
}

fn special(text: &str) -> Option<Special> {
    if text == "%laneid" {
        return Some(Special::Lane);
    }
    let (word, axis) = text.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|a| *a == axis)? as u8;
    Some(match word {
        "%tid" => Special::Thread(axis),
        "%ctaid" => Special::Group(axis),
        "%nctaid" => Special::Groups(axis),
        "%ntid" => Special::Threads(axis),
        _ => return None,
    })
}

/// The bits of a literal: `12`, `-1`, `0x1F`, `0f3F800000`, `0d3FF0000000000000`.
pub fn number(text: &str) -> Option<u64> {
    for prefix in ["0f", "0d", "0x", "0X"] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, 16).ok();
        }
    }
    text.parse::<i64>().map(|v| v as u64).or_else(|_| text.parse::<u64>()).ok()
}
