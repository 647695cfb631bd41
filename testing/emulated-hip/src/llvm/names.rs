//! Names and constants as columns.

use super::cursor::{File, Ty};
use emulated_gpu::inst::Column;
use std::collections::HashMap;

/// What a name is.
#[derive(Clone, Debug)]
pub enum Named {
    One(Ty, Column),
    /// A vector; what is not yet set has no column.
    Vector(Ty, Vec<Option<Column>>),
    /// 64 bits extended to 128; true: with their sign.
    Extended(bool, Column),
    /// The product of two such numbers, and its upper half.
    Product(bool, [Column; 2]),
    High(bool, [Column; 2]),
}

impl Named {
    fn columns(&self) -> Vec<(File, Column)> {
        match self {
            Named::One(ty, c) => vec![(ty.file(), *c)],
            Named::Vector(ty, all) => all.iter().flatten().map(|c| (ty.file(), *c)).collect(),
            Named::Extended(_, c) => vec![(File::Wide, *c)],
            Named::Product(_, two) | Named::High(_, two) => two.map(|c| (File::Wide, c)).to_vec(),
        }
    }
}

#[derive(Default)]
pub struct Names {
    known: HashMap<String, Named>,
    /// How many columns each file has.
    pub columns: HashMap<File, Column>,
    pub constants: HashMap<(File, u64), Column>,
    /// How many names a column has; parameters and constants are not here, and stay.
    uses: HashMap<(File, Column), u32>,
    free: HashMap<File, Vec<Column>>,
}

impl Names {
    /// A column that stays.
    pub fn lasting(&mut self, file: File) -> Column {
        let all = self.columns.entry(file).or_insert(0);
        *all += 1;
        *all - 1
    }
    /// A column for a result; it is free again when no name is left for it.
    pub fn fresh(&mut self, file: File) -> Column {
        let column = self.free.get_mut(&file).and_then(Vec::pop).unwrap_or_else(|| self.lasting(file));
        self.uses.insert((file, column), 0);
        column
    }
    pub fn constant(&mut self, file: File, bits: u64) -> Column {
        if let Some(&c) = self.constants.get(&(file, bits)) {
            return c;
        }
        let c = self.lasting(file);
        self.constants.insert((file, bits), c);
        c
    }
    pub fn is_known(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }
    pub fn set(&mut self, name: &str, what: Named) -> Result<(), String> {
        for column in what.columns() {
            if let Some(n) = self.uses.get_mut(&column) {
                *n += 1;
            }
        }
        match self.known.insert(name.to_string(), what) {
            Some(_) => Err(format!("{name} is there twice")),
            None => Ok(()),
        }
    }
    /// A name's last line is over.
    pub fn end(&mut self, name: &str) {
        let columns = self.known.remove(name).map(|n| n.columns()).unwrap_or_default();
        columns.into_iter().for_each(|(file, column)| self.release(file, column));
    }
    /// One name less; at none, the column is free.
    pub fn release(&mut self, file: File, column: Column) {
        let Some(n) = self.uses.get_mut(&(file, column)) else { return };
        *n = n.saturating_sub(1);
        if *n == 0 {
            self.uses.remove(&(file, column));
            self.free.entry(file).or_default().push(column);
        }
    }

    pub fn named(&self, text: &str) -> Result<&Named, String> {
        self.known.get(text).ok_or_else(|| format!("{text} is not known here"))
    }
    /// A number: a name of this type, or a constant.
    pub fn one(&mut self, ty: Ty, text: &str) -> Result<Column, String> {
        if text.starts_with(['%', '@']) {
            return match self.named(text)? {
                Named::One(t, c) if *t == ty => Ok(*c),
                other => Err(format!("{text} is {other:?}, and {ty:?} is wanted")),
            };
        }
        let bits = constant(ty, text).ok_or_else(|| format!("{text:?} is no {ty:?}"))?;
        Ok(self.constant(ty.file(), bits))
    }
    /// A vector of this many.
    pub fn vector(&self, (ty, count): (Ty, usize), text: &str) -> Result<Vec<Option<Column>>, String> {
        if text == "undef" {
            return Ok(vec![None; count]);
        }
        match self.named(text)? {
            Named::Vector(t, all) if *t == ty && all.len() == count => Ok(all.clone()),
            other => Err(format!("{text} is {other:?}, and <{count} x {ty:?}> is wanted")),
        }
    }
    /// One that is set everywhere.
    pub fn whole(&self, of: (Ty, usize), text: &str) -> Result<Vec<Column>, String> {
        let all: Option<Vec<Column>> = self.vector(of, text)?.into_iter().collect();
        all.ok_or_else(|| format!("{text} is undefined in part"))
    }
}

/// The bits of a constant. Floats of 32 bits are written as those of 64 to which they are widened.
fn constant(ty: Ty, text: &str) -> Option<u64> {
    match ty {
        Ty::I1 => match text {
            "true" => Some(1),
            "false" => Some(0),
            _ => None,
        },
        Ty::I8 | Ty::I16 | Ty::I32 => text.parse::<i64>().ok().map(|v| v as u64 & 0xffff_ffff),
        Ty::I64 => text.parse::<i64>().ok().map(|v| v as u64),
        Ty::Float | Ty::Double => {
            let bits = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok()?,
                None => text.parse::<f64>().ok()?.to_bits(),
            };
            if ty == Ty::Double {
                return Some(bits);
            }
            let x = f64::from_bits(bits);
            if x.is_nan() {
                return Some(bits >> 63 << 31 | 0xff << 23 | bits >> 29 & 0x7f_ffff);
            }
            // Only what is an f32 may be written.
            (f64::from(x as f32).to_bits() == bits).then(|| u64::from((x as f32).to_bits()))
        }
        Ty::Half | Ty::I128 | Ty::Global | Ty::Lds => None,
    }
}
