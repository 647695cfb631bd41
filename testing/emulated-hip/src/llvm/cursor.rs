//! A line, read from left to right; types.

use emulated_gpu::inst::Factor;

/// Types of numbers and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    Half,
    Float,
    Double,
    /// `ptr addrspace(1)`
    Global,
    /// `ptr addrspace(3)`
    Lds,
}

/// Where columns of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    Narrow,
    Wide,
    Predicate,
}

impl Ty {
    pub fn file(self) -> File {
        match self {
            Ty::I1 => File::Predicate,
            Ty::I8 | Ty::I16 | Ty::I32 | Ty::Half | Ty::Float | Ty::Lds => File::Narrow,
            Ty::I64 | Ty::I128 | Ty::Double | Ty::Global => File::Wide,
        }
    }
    pub fn bytes(self) -> u8 {
        match self {
            Ty::I1 | Ty::I8 => 1,
            Ty::I16 | Ty::Half => 2,
            Ty::I32 | Ty::Float | Ty::Lds => 4,
            Ty::I64 | Ty::Double | Ty::Global => 8,
            Ty::I128 => 16,
        }
    }
    pub fn is_wide(self) -> bool {
        self.file() == File::Wide
    }
    pub fn is_float(self) -> bool {
        matches!(self, Ty::Half | Ty::Float | Ty::Double)
    }
    /// As elements of a matrix.
    pub fn factor(self) -> Result<Factor, String> {
        match self {
            Ty::Half => Ok(Factor::F16),
            Ty::I16 => Ok(Factor::BF16),
            _ => Err(format!("matrices of {self:?}")),
        }
    }
}

/// The rest of a line.
pub struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    pub fn new(line: &'a str) -> Self {
        Cursor { rest: line.trim() }
    }
    /// Takes a text if it comes next.
    pub fn takes(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }
    pub fn wants(&mut self, text: &str) -> Result<(), String> {
        if self.takes(text) { Ok(()) } else { Err(format!("{text:?} is expected before {:?}", self.rest)) }
    }
    /// A word or a number: up to a blank or a sign of punctuation.
    pub fn word(&mut self) -> &'a str {
        let end = self.rest.find([' ', ',', '(', ')', ']', '>']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }
    pub fn number(&mut self) -> Result<u64, String> {
        let word = self.word();
        word.parse().map_err(|_| format!("a number is expected, not {word:?}"))
    }
    pub fn ends(&self) -> Result<(), String> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("{:?} behind an instruction", self.rest)) }
    }
    pub fn ty(&mut self) -> Result<Ty, String> {
        Ok(match self.word() {
            "i1" => Ty::I1,
            "i8" => Ty::I8,
            "i16" => Ty::I16,
            "i32" => Ty::I32,
            "i64" => Ty::I64,
            "i128" => Ty::I128,
            "half" => Ty::Half,
            "float" => Ty::Float,
            "double" => Ty::Double,
            "ptr" => match () {
                () if self.takes("addrspace(1)") => Ty::Global,
                () if self.takes("addrspace(3)") => Ty::Lds,
                () => return Err("a pointer to no address space".into()),
            },
            other => return Err(format!("{other:?} is no type")),
        })
    }
    /// A type, or a vector of one and how many of it.
    pub fn vector(&mut self) -> Result<(Ty, Option<usize>), String> {
        if !self.takes("<") {
            return Ok((self.ty()?, None));
        }
        let count = self.number()? as usize;
        self.wants("x")?;
        let ty = self.ty()?;
        self.wants(">")?;
        Ok((ty, Some(count)))
    }
}
