//! SPIR-V: buffers, parameters, shared memory, atomics.
//!
//! A vector is loaded and stored element by element: an array of vectors would be another view of
//! the same buffer, which needs `Aliased` and costs what it may save. Whether drivers join the
//! accesses is to be measured.

use super::Emitter;
use super::code::{Code, Decoration, Scope, StorageClass};
use super::module::Word;
use crate::ir::{Access, Atomic, Elem, Place, Scalar, Type, Value};
use crate::pass::Unsupported;

impl Emitter<'_> {
    pub(super) fn declare_memory(&mut self) -> Result<(), Unsupported> {
        let k = self.k;
        for (i, b) in k.buffers.iter().enumerate() {
            let block = self.block(b.elem);
            let pointer = self.pointer(StorageClass::StorageBuffer, block);
            let v = self.b.global(Code::Variable, pointer, &[StorageClass::StorageBuffer as u32]);
            self.b.name(v, b.name.as_str());
            self.b.decorate(v, Decoration::DescriptorSet, &[0]);
            self.b.decorate(v, Decoration::Binding, &[i as u32]);
            match b.access {
                Access::Read => self.b.decorate(v, Decoration::NonWritable, &[]),
                Access::Write => self.b.decorate(v, Decoration::NonReadable, &[]),
                Access::ReadWrite if self.has_fragments() => {
                    return self.unsupported(
                        "fragments beside buffers that are read and written are not emitted as SPIR-V",
                    );
                }
                // What one invocation stores, another of its workgroup loads after a barrier.
                Access::ReadWrite => self.b.decorate(v, Decoration::Coherent, &[]),
            }
            self.buffers.push(v);
        }
        for s in &k.shared {
            match s.elem {
                Elem::Bool | Elem::U8 | Elem::F8(_) | Elem::BF16 => {
                    return self
                        .unsupported(&format!("shared memory of {} is not emitted as SPIR-V", s.elem));
                }
                Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F16 | Elem::F32 | Elem::F64 => {}
            }
            let (elem, len) = (self.elem_word(s.elem), self.uint(s.len));
            let array = self.b.declare(Code::TypeArray, &[elem, len]);
            let pointer = self.pointer(StorageClass::Workgroup, array);
            let v = self.b.global(Code::Variable, pointer, &[StorageClass::Workgroup as u32]);
            self.b.name(v, s.name.as_str());
            self.shared.push(v);
        }
        let params: Vec<Scalar> = k
            .params
            .iter()
            .map(|p| p.scalar)
            .chain((!self.device.keeps_zeros).then_some(Scalar::F32))
            .collect();
        if !params.is_empty() {
            let members: Vec<Word> = params.iter().map(|&s| self.word(s.into())).collect();
            let block = self.b.declare(Code::TypeStruct, &members);
            self.b.decorate(block, Decoration::Block, &[]);
            let mut offset = 0u32;
            for (i, s) in params.iter().enumerate() {
                let size = s.bits() / 8;
                offset = offset.next_multiple_of(size);
                self.b.decorate_member(block, i as u32, Decoration::Offset, offset);
                offset += size;
            }
            let pointer = self.pointer(StorageClass::PushConstant, block);
            self.params = Some(self.b.global(Code::Variable, pointer, &[StorageClass::PushConstant as u32]));
        }
        Ok(())
    }

    /// A struct of an array without end.
    fn block(&mut self, e: Elem) -> Word {
        if let Some(&b) = self.types.blocks.get(&e) {
            return b;
        }
        let elem = self.elem_word(e);
        let array = self.b.declare(Code::TypeRuntimeArray, &[elem]);
        let block = self.b.declare(Code::TypeStruct, &[array]);
        // The library of types may have given the array and the struct of another element of the
        // same type.
        let known = self.types.blocks.values().any(|&b| b == block);
        if !known {
            self.b.decorate(array, Decoration::ArrayStride, &[e.size()]);
            self.b.decorate(block, Decoration::Block, &[]);
            self.b.decorate_member(block, 0, Decoration::Offset, 0);
        }
        self.types.blocks.insert(e, block);
        block
    }

    pub(super) fn param(&mut self, i: u32) -> Word {
        self.pushed(i, self.k.params[i as usize].scalar)
    }
    /// The zero that stands behind the parameters.
    pub(super) fn zero(&mut self, s: Scalar) -> Word {
        let zero = self.pushed(self.k.params.len() as u32, Scalar::F32);
        if s == Scalar::F32 {
            return zero;
        }
        let ty = self.word(s.into());
        self.inst(Code::FConvert, ty, &[zero])
    }
    fn pushed(&mut self, i: u32, s: Scalar) -> Word {
        let block = self.params.expect("a kernel with push constants declares them");
        let ty = self.word(s.into());
        let pointer = self.pointer(StorageClass::PushConstant, ty);
        let i = self.uint(i);
        let at = self.inst(Code::AccessChain, pointer, &[block, i]);
        self.inst(Code::Load, ty, &[at])
    }

    fn elem_of(&self, p: Place) -> Elem {
        match p {
            Place::Buffer(i) => self.k.buffers[i as usize].elem,
            Place::Shared(i) => self.k.shared[i as usize].elem,
        }
    }

    /// A pointer to element `at + more`.
    pub(super) fn pointer_to(&mut self, p: Place, at: Value, more: u8) -> Word {
        let elem = self.elem_word(self.elem_of(p));
        let mut index = self.id(at);
        if more > 0 {
            let s = self.scalar(at);
            let ty = self.word(s.into());
            let more = self.constant(crate::ir::Constant::int(s, i64::from(more)));
            index = self.inst(Code::IAdd, ty, &[index, more]);
        }
        match p {
            Place::Buffer(i) => {
                let (base, zero) = (self.buffers[i as usize], self.uint(0));
                let pointer = self.pointer(StorageClass::StorageBuffer, elem);
                self.inst(Code::AccessChain, pointer, &[base, zero, index])
            }
            Place::Shared(i) => {
                let base = self.shared[i as usize];
                let pointer = self.pointer(StorageClass::Workgroup, elem);
                self.inst(Code::AccessChain, pointer, &[base, index])
            }
        }
    }

    pub(super) fn load(&mut self, p: Place, at: Value, width: u8) -> Word {
        let s = self.elem_of(p).scalar();
        let each: Vec<Word> = (0..width).map(|i| self.load_one(p, at, i)).collect();
        if width == 1 {
            return each[0];
        }
        let ty = self.word(Type::Vector(s, width));
        self.inst(Code::CompositeConstruct, ty, &each)
    }

    fn load_one(&mut self, p: Place, at: Value, more: u8) -> Word {
        let e = self.elem_of(p);
        let pointer = self.pointer_to(p, at, more);
        let (raw, ty) = (self.elem_word(e), self.word(e.scalar().into()));
        let access = self.access(p);
        let v = self.inst(Code::Load, raw, &[&[pointer], access.as_slice()].concat());
        match e {
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => v,
            Elem::F16 => self.inst(Code::FConvert, ty, &[v]),
            Elem::U8 => self.inst(Code::UConvert, ty, &[v]),
            Elem::F8(_) => unreachable!("lowered to bytes"),
            Elem::Bool => {
                let (uint, zero) = (self.word(Scalar::U32.into()), self.uint(0));
                let wide = self.inst(Code::UConvert, uint, &[v]);
                self.inst(Code::INotEqual, ty, &[wide, zero])
            }
            Elem::BF16 => {
                let (uint, sixteen) = (self.word(Scalar::U32.into()), self.uint(16));
                let wide = self.inst(Code::UConvert, uint, &[v]);
                let bits = self.inst(Code::ShiftLeftLogical, uint, &[wide, sixteen]);
                self.inst(Code::Bitcast, ty, &[bits])
            }
        }
    }

    pub(super) fn store(&mut self, p: Place, at: Value, v: Value) {
        let (e, t) = (self.elem_of(p), self.ty(v));
        let (raw, one) = (self.elem_word(e), self.word(e.scalar().into()));
        for i in 0..t.width() {
            let mut x = self.id(v);
            if t.width() > 1 {
                x = self.inst(Code::CompositeExtract, one, &[x, u32::from(i)]);
            }
            let (uint, sixteen) = (self.word(Scalar::U32.into()), self.uint(16));
            let x = match e {
                Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => x,
                Elem::F16 => self.inst(Code::FConvert, raw, &[x]),
                Elem::U8 => self.inst(Code::UConvert, raw, &[x]),
                Elem::F8(_) => unreachable!("lowered to bytes"),
                Elem::Bool => {
                    let [yes, no] = [1, 0].map(|v| self.uint(v));
                    let wide = self.inst(Code::Select, uint, &[x, yes, no]);
                    self.inst(Code::UConvert, raw, &[wide])
                }
                Elem::BF16 => {
                    let bits = self.round_bf16(Scalar::F32.into(), x);
                    let high = self.inst(Code::ShiftRightLogical, uint, &[bits, sixteen]);
                    self.inst(Code::UConvert, raw, &[high])
                }
            };
            let pointer = self.pointer_to(p, at, i);
            let access = self.access(p);
            self.does(Code::Store, &[&[pointer, x], access.as_slice()].concat());
        }
    }

    pub(super) fn atomic(&mut self, op: Atomic, p: Place, at: Value, v: Value) -> Word {
        let s = self.scalar(v);
        let code = match op {
            Atomic::Add => Code::AtomicIAdd,
            Atomic::Min if s.is_signed() => Code::AtomicSMin,
            Atomic::Min => Code::AtomicUMin,
            Atomic::Max if s.is_signed() => Code::AtomicSMax,
            Atomic::Max => Code::AtomicUMax,
            Atomic::And => Code::AtomicAnd,
            Atomic::Or => Code::AtomicOr,
            Atomic::Xor => Code::AtomicXor,
            Atomic::Exchange => Code::AtomicExchange,
        };
        let pointer = self.pointer_to(p, at, 0);
        let scope = match p {
            Place::Buffer(_) => Scope::Device,
            Place::Shared(_) => Scope::Workgroup,
        };
        // Relaxed: an atomic orders nothing but itself.
        let (ty, scope, none, v) = (self.word(s.into()), self.uint(scope as u32), self.uint(0), self.id(v));
        self.inst(code, ty, &[pointer, scope, none, v])
    }
}
