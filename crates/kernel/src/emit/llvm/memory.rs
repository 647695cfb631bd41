//! LLVM IR: buffers, shared memory, atomics, barriers.
//!
//! Buffers are in address space 1, shared memory (LDS) in 3. A vector begins at a multiple of its
//! width, so it is one access, of which at most 16 bytes are known to be aligned.

use super::{Assembler, Operand, ty};
use crate::ir::{Access, Atomic, Elem, Place, Scalar, Value};

/// Of a buffer that is only read: the same whenever it is loaded.
pub(super) const INVARIANT: &str = ", !invariant.load !0";

/// The widest access, in bytes.
const WIDEST: u32 = 16;

/// What an element is in memory.
pub(super) fn elem_type(e: Elem) -> &'static str {
    match e {
        Elem::Bool | Elem::U8 | Elem::F8(_) => "i8",
        Elem::F16 => "half",
        Elem::BF16 => "i16",
        Elem::I32 | Elem::U32 => "i32",
        Elem::I64 | Elem::U64 => "i64",
        Elem::F32 => "float",
        Elem::F64 => "double",
    }
}

/// What a pointer to a place is, and what its indices are.
pub(super) fn pointer(p: Place) -> (&'static str, &'static str) {
    match p {
        Place::Buffer(_) => ("ptr addrspace(1)", "i64"),
        Place::Shared(_) => ("ptr addrspace(3)", "i32"),
    }
}

impl Assembler<'_> {
    pub(super) fn elem(&self, p: Place) -> Elem {
        match p {
            Place::Buffer(i) => self.k.buffers[i as usize].elem,
            Place::Shared(i) => self.k.shared[i as usize].elem,
        }
    }

    /// An index as wide as indices of a place are.
    pub(super) fn index(&mut self, p: Place, at: Value) -> Operand {
        let (s, at) = (self.scalar(at), self.one(at));
        let word = match (p, s.bits()) {
            (Place::Buffer(_), 64) | (Place::Shared(_), 32) => return at,
            (Place::Shared(_), _) => return self.inst(&format!("trunc i64 {at} to i32")),
            (Place::Buffer(_), _) if s.is_signed() => "sext",
            (Place::Buffer(_), _) => "zext",
        };
        self.inst(&format!("{word} i32 {at} to i64"))
    }
    /// The address of the element of an index.
    pub(super) fn address_of(&mut self, p: Place, index: &str) -> Operand {
        let (ptr, int) = pointer(p);
        let base = match p {
            Place::Buffer(i) => format!("%b{i}"),
            Place::Shared(i) => format!("@s{i}"),
        };
        let t = elem_type(self.elem(p));
        self.inst(&format!("getelementptr {t}, {ptr} {base}, {int} {index}"))
    }
    /// What is said of a load from a place.
    pub(super) fn load_note(&self, p: Place) -> &'static str {
        match p {
            Place::Buffer(i) if self.k.buffers[i as usize].access == Access::Read => INVARIANT,
            Place::Buffer(_) | Place::Shared(_) => "",
        }
    }

    /// Elements as they are in memory, from an index that is a multiple of `aligned` on.
    pub(super) fn load_raw(&mut self, p: Place, index: &str, count: usize, aligned: u32) -> Vec<Operand> {
        let (e, note) = (self.elem(p), self.load_note(p));
        let (t, align) = (elem_type(e), (aligned * e.size()).min(WIDEST));
        let (ptr, address) = (pointer(p).0, self.address_of(p, index));
        if count == 1 {
            return vec![self.inst(&format!("load {t}, {ptr} {address}, align {align}{note}"))];
        }
        let all = self.inst(&format!("load <{count} x {t}>, {ptr} {address}, align {align}{note}"));
        (0..count).map(|i| self.inst(&format!("extractelement <{count} x {t}> {all}, i32 {i}"))).collect()
    }

    pub(super) fn load(&mut self, p: Place, at: Value, width: u8) -> Vec<Operand> {
        let (e, index) = (self.elem(p), self.index(p, at));
        let raw = self.load_raw(p, &index, usize::from(width), u32::from(width));
        raw.iter().map(|r| self.widened(e, r)).collect()
    }

    /// What was loaded, as what is computed with.
    fn widened(&mut self, e: Elem, r: &str) -> Operand {
        match e {
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => r.to_string(),
            Elem::U8 => self.inst(&format!("zext i8 {r} to i32")),
            Elem::Bool => self.inst(&format!("icmp ne i8 {r}, 0")),
            Elem::F8(_) => unreachable!("lowered to bytes"),
            Elem::F16 => self.inst(&format!("fpext half {r} to float")),
            Elem::BF16 => {
                let wide = self.inst(&format!("zext i16 {r} to i32"));
                let bits = self.inst(&format!("shl i32 {wide}, 16"));
                self.inst(&format!("bitcast i32 {bits} to float"))
            }
        }
    }

    /// A vector of such operands.
    pub(super) fn vector(&mut self, t: &str, all: &[Operand]) -> Operand {
        let n = all.len();
        let mut vector = "undef".to_string();
        for (i, v) in all.iter().enumerate() {
            vector = self.inst(&format!("insertelement <{n} x {t}> {vector}, {t} {v}, i32 {i}"));
        }
        vector
    }

    /// Elements as they are in memory, from an index that is a multiple of `aligned` on.
    pub(super) fn store_raw(&mut self, p: Place, index: &str, raw: &[Operand], aligned: u32) {
        let e = self.elem(p);
        let (t, align) = (elem_type(e), (aligned * e.size()).min(WIDEST));
        let (ptr, address) = (pointer(p).0, self.address_of(p, index));
        match raw {
            [one] => self.line(&format!("store {t} {one}, {ptr} {address}, align {align}")),
            _ => {
                let (n, all) = (raw.len(), self.vector(t, raw));
                self.line(&format!("store <{n} x {t}> {all}, {ptr} {address}, align {align}"));
            }
        }
    }

    pub(super) fn store(&mut self, p: Place, at: Value, v: Value) {
        let e = self.elem(p);
        let raw: Vec<Operand> = self.all(v).iter().map(|r| self.narrowed(e, r)).collect();
        let index = self.index(p, at);
        self.store_raw(p, &index, &raw, raw.len() as u32);
    }

    /// What is computed with, as what is stored.
    pub(super) fn narrowed(&mut self, e: Elem, r: &str) -> Operand {
        match e {
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => r.to_string(),
            Elem::U8 => self.inst(&format!("trunc i32 {r} to i8")),
            Elem::Bool => self.inst(&format!("zext i1 {r} to i8")),
            Elem::F8(_) => unreachable!("lowered to bytes"),
            Elem::F16 => self.inst(&format!("fptrunc float {r} to half")),
            Elem::BF16 => {
                let bits = self.bf16_bits(r);
                let high = self.inst(&format!("lshr i32 {bits}, 16"));
                self.inst(&format!("trunc i32 {high} to i16"))
            }
        }
    }

    /// Alone in the device, or in the workgroup for shared memory; nothing else is ordered by it.
    pub(super) fn atomic(&mut self, op: Atomic, p: Place, at: Value, v: Value) -> Operand {
        let s = self.scalar(v);
        let name = match op {
            Atomic::Add => "add",
            Atomic::Min if s == Scalar::I32 => "min",
            Atomic::Min => "umin",
            Atomic::Max if s == Scalar::I32 => "max",
            Atomic::Max => "umax",
            Atomic::And => "and",
            Atomic::Or => "or",
            Atomic::Xor => "xor",
            Atomic::Exchange => "xchg",
        };
        let scope = if matches!(p, Place::Shared(_)) { "workgroup" } else { "agent" };
        let index = self.index(p, at);
        let (t, v, ptr, address) = (ty(s), self.one(v), pointer(p).0, self.address_of(p, &index));
        self.inst(&format!(
            "atomicrmw {name} {ptr} {address}, {t} {v} syncscope(\"{scope}\") monotonic, align 4"
        ))
    }

    /// What was stored before is seen by the workgroup after.
    pub(super) fn barrier(&mut self) {
        self.line("fence syncscope(\"workgroup\") release");
        self.call_void("llvm.amdgcn.s.barrier");
        self.line("fence syncscope(\"workgroup\") acquire");
    }
}
