//! SPIR-V: types and constants, each declared once.

use super::Emitter;
use super::code::{Code, StorageClass};
use super::module::Word;
use crate::ir::{Constant, Elem, Fragment, Scalar, Type};
use std::collections::HashMap;

/// What was declared.
#[derive(Default)]
pub struct Types {
    constants: HashMap<(Word, u64), Word>,
    pointers: HashMap<(u32, Word), Word>,
    /// Structs of one array without end, by element.
    pub blocks: HashMap<Elem, Word>,
    pub fragments: HashMap<Fragment, Word>,
}

impl Emitter<'_> {
    /// The type of a value.
    pub(super) fn word(&mut self, t: Type) -> Word {
        let (s, w) = match t {
            Type::Vector(s, w) => (s, w),
            Type::Fragment(f) => return self.fragment_type(f),
        };
        let one = match s {
            Scalar::Bool => self.b.declare(Code::TypeBool, &[]),
            Scalar::I32 | Scalar::U32 => self.int(32),
            Scalar::I64 | Scalar::U64 => self.int(64),
            Scalar::F32 => self.float(32),
            Scalar::F64 => self.float(64),
        };
        if w == 1 { one } else { self.b.declare(Code::TypeVector, &[one, u32::from(w)]) }
    }
    fn int(&mut self, bits: u32) -> Word {
        // Without a sign, which instructions have.
        self.b.declare(Code::TypeInt, &[bits, 0])
    }
    pub(super) fn float(&mut self, bits: u32) -> Word {
        self.b.declare(Code::TypeFloat, &[bits])
    }
    /// Three u32: what the builtins with axes are.
    pub(super) fn uint3(&mut self) -> Word {
        let one = self.int(32);
        self.b.declare(Code::TypeVector, &[one, 3])
    }
    /// The type of an element of memory.
    pub(super) fn elem_word(&mut self, e: Elem) -> Word {
        match e {
            Elem::Bool | Elem::U8 | Elem::F8(_) => self.int(8),
            // A bf16 is moved as its bits.
            Elem::BF16 => self.int(16),
            Elem::F16 => self.float(16),
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => {
                self.word(e.scalar().into())
            }
        }
    }
    pub(super) fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        if let Some(&p) = self.types.pointers.get(&(class as u32, to)) {
            return p;
        }
        let p = self.b.declare(Code::TypePointer, &[class as u32, to]);
        self.types.pointers.insert((class as u32, to), p);
        p
    }
    pub(super) fn constant(&mut self, c: Constant) -> Word {
        let ty = self.word(c.scalar.into());
        if let Some(&id) = self.types.constants.get(&(ty, c.bits)) {
            return id;
        }
        let id = match c.scalar {
            Scalar::Bool if c.bits != 0 => self.b.global(Code::ConstantTrue, ty, &[]),
            Scalar::Bool => self.b.global(Code::ConstantFalse, ty, &[]),
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.b.global(Code::Constant, ty, &[c.bits as u32]),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => {
                self.b.global(Code::Constant, ty, &[c.bits as u32, (c.bits >> 32) as u32])
            }
        };
        self.types.constants.insert((ty, c.bits), id);
        id
    }
    pub(super) fn uint(&mut self, v: u32) -> Word {
        self.constant(v.into())
    }
    /// A constant as wide as a type.
    pub(super) fn constant_like(&mut self, t: Type, c: Constant) -> Word {
        let one = self.constant(c);
        match t.width() {
            1 => one,
            w => {
                let ty = self.word(t.of(c.scalar));
                self.b.global(Code::ConstantComposite, ty, &vec![one; usize::from(w)])
            }
        }
    }
}
