//! Types and constants, each declared once.

use super::Emitter;
use crate::ir::{Constant, Elem, Fragment, Scalar, Type};
use rspirv::spirv::{StorageClass, Word};
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
            Scalar::Bool => self.b.type_bool(),
            Scalar::I32 | Scalar::U32 => self.b.type_int(32, 0),
            Scalar::I64 | Scalar::U64 => self.b.type_int(64, 0),
            Scalar::F32 => self.b.type_float(32, None),
            Scalar::F64 => self.b.type_float(64, None),
        };
        if w == 1 { one } else { self.b.type_vector(one, u32::from(w)) }
    }
    /// Three u32: what the builtins with axes are.
    pub(super) fn uint3(&mut self) -> Word {
        let one = self.b.type_int(32, 0);
        self.b.type_vector(one, 3)
    }
    /// The type of an element of memory.
    pub(super) fn elem_word(&mut self, e: Elem) -> Word {
        match e {
            Elem::Bool | Elem::U8 => self.b.type_int(8, 0),
            // A bf16 is moved as its bits.
            Elem::BF16 => self.b.type_int(16, 0),
            Elem::F16 => self.b.type_float(16, None),
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => {
                self.word(e.scalar().into())
            }
        }
    }
    pub(super) fn pointer(&mut self, class: StorageClass, to: Word) -> Word {
        if let Some(&p) = self.types.pointers.get(&(class as u32, to)) {
            return p;
        }
        let p = self.b.type_pointer(None, class, to);
        self.types.pointers.insert((class as u32, to), p);
        p
    }
    pub(super) fn constant(&mut self, c: Constant) -> Word {
        let ty = self.word(c.scalar.into());
        if let Some(&id) = self.types.constants.get(&(ty, c.bits)) {
            return id;
        }
        let id = match c.scalar {
            Scalar::Bool if c.bits != 0 => self.b.constant_true(ty),
            Scalar::Bool => self.b.constant_false(ty),
            Scalar::I32 | Scalar::U32 | Scalar::F32 => self.b.constant_bit32(ty, c.bits as u32),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.b.constant_bit64(ty, c.bits),
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
                self.b.constant_composite(ty, vec![one; usize::from(w)])
            }
        }
    }
}
