//! PTX: buffers, shared memory, cp.async, atomics.
//!
//! A vector begins at a multiple of its width, so it is one access, of at most 16 bytes.

use super::{Class, Emitter, Register, ty};
use crate::ir::{Access, Atomic, Elem, Place, Scalar, Value};

/// An access adds fewer bytes than this to an address: registers of 24 bits, with a sign, on all
/// devices.
const MAX_OFFSET_BYTES: u32 = 1 << 20;

/// How an element is accessed.
fn access(e: Elem) -> &'static str {
    match e {
        Elem::Bool | Elem::U8 | Elem::F8(_) => "u8",
        Elem::F16 | Elem::BF16 => "b16",
        Elem::I32 | Elem::U32 => "b32",
        Elem::I64 | Elem::U64 => "b64",
        Elem::F32 => "f32",
        Elem::F64 => "f64",
    }
}

/// Elements of an access.
fn at_once(e: Elem, width: usize) -> usize {
    width.min((16 / e.size()) as usize)
}

impl Emitter<'_> {
    pub(super) fn elem(&self, p: Place) -> Elem {
        match p {
            Place::Buffer(i) => self.k.buffers[i as usize].elem,
            Place::Shared(i) => self.k.shared[i as usize].elem,
        }
    }

    /// The address of an element, bytes to add to it, and the words of an access to it.
    pub(super) fn address(&mut self, p: Place, at: Value) -> (Register, u32, &'static str) {
        let size = self.elem(p).size();
        match p {
            Place::Buffer(i) => {
                let (s, index) = (self.scalar(at), self.one(at));
                let base = self.once(Scalar::U64, "ld.param.u64", &[&format!("[b{i}]")]);
                let base = self.once(Scalar::U64, "cvta.to.global.u64", &[&base]);
                let size = size.to_string();
                let address = match s.bits() {
                    64 => self.once(Scalar::U64, "mad.lo.s64", &[&index, &size, &base]),
                    _ => self.once(Scalar::U64, &format!("mad.wide.{}", ty(s)), &[&index, &size, &base]),
                };
                let is_read = self.k.buffers[i as usize].access == Access::Read;
                (address, 0, if is_read { "global.nc" } else { "global" })
            }
            Place::Shared(i) => {
                let (terms, number) = self.indices.sum(at);
                let mut address = self.shared_base(i);
                for (v, factor) in terms {
                    let (s, mut part) = (self.scalar(v), self.one(v));
                    if s.bits() == 64 {
                        part = self.once(Scalar::U32, "cvt.u32.u64", &[&part]);
                    }
                    let bytes = factor.wrapping_mul(size).to_string();
                    address = self.once(Scalar::U32, "mad.lo.u32", &[&part, &bytes, &address]);
                }
                let (address, offset) = self.near(address, number.wrapping_mul(size));
                (address, offset, "shared")
            }
        }
    }
    /// The same address, with no more bytes to add than an access can.
    pub(super) fn near(&mut self, address: Register, offset: u32) -> (Register, u32) {
        if offset < MAX_OFFSET_BYTES {
            return (address, offset);
        }
        (self.once(Scalar::U32, "add.u32", &[&address, &offset.to_string()]), 0)
    }
    /// The address of an element of shared memory in one register.
    pub(super) fn whole_address(&mut self, p: Place, at: Value) -> Register {
        match self.address(p, at) {
            (address, 0, _) => address,
            (address, offset, _) => self.once(Scalar::U32, "add.u32", &[&address, &offset.to_string()]),
        }
    }

    /// Where a piece of shared memory begins.
    fn shared_base(&mut self, i: u32) -> Register {
        let name = if self.dynamic {
            format!("dynamic+{}", self.places.pieces[i as usize])
        } else {
            format!("s{i}")
        };
        self.once(Scalar::U32, "mov.u32", &[&name])
    }

    pub(super) fn load(&mut self, p: Place, at: Value, width: u8) -> Vec<Register> {
        let e = self.elem(p);
        let (address, from, space) = self.address(p, at);
        let class = match e {
            Elem::F16 | Elem::BF16 => Class::Half,
            Elem::Bool | Elem::U8 | Elem::F8(_) => Class::Word,
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => Class::of(e.scalar()),
        };
        let raw: Vec<Register> = (0..width).map(|_| self.register(class)).collect();
        let step = at_once(e, raw.len());
        for (i, part) in raw.chunks(step).enumerate() {
            let (list, vector) = list(part);
            let offset = from as usize + i * step * e.size() as usize;
            self.line(&format!("ld.{space}{vector}.{} {list}, [{address}+{offset}]", access(e)));
        }
        raw.iter().map(|r| self.widened(e, r)).collect()
    }

    /// Begins a copy. One of 16 bytes goes past the cache of the multiprocessor, which will not be
    /// asked for them again. Where nothing is to be read, no bytes are, and zeros are written.
    pub(super) fn begin_cp_async(
        &mut self,
        (to, at): (Place, Value),
        (from, index): (Place, Value),
        count: u8,
        there: Value,
    ) {
        let bytes = u32::from(count) * self.elem(to).size();
        let ((to, first, _), (from, second, _)) = (self.address(to, at), self.address(from, index));
        let there = self.one(there);
        let read = self.inst(Scalar::U32, "selp.u32", &[&bytes.to_string(), "0", &there]);
        let cache = if bytes == 16 { "cg" } else { "ca" };
        self.line(&format!(
            "cp.async.{cache}.shared.global [{to}+{first}], [{from}+{second}], {bytes}, {read}"
        ));
    }

    /// What was loaded, as what is computed with.
    fn widened(&mut self, e: Elem, r: &str) -> Register {
        match e {
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 | Elem::U8 => r.to_string(),
            Elem::Bool => self.inst(Scalar::Bool, "setp.ne.u32", &[r, "0"]),
            Elem::F8(_) => unreachable!("lowered to bytes"),
            Elem::F16 => self.inst(Scalar::F32, "cvt.f32.f16", &[r]),
            Elem::BF16 => {
                let wide = self.inst(Scalar::U32, "cvt.u32.u16", &[r]);
                let bits = self.inst(Scalar::U32, "shl.b32", &[&wide, "16"]);
                self.inst(Scalar::F32, "mov.b32", &[&bits])
            }
        }
    }

    pub(super) fn store(&mut self, p: Place, at: Value, v: Value) {
        let e = self.elem(p);
        let values: Vec<Register> = self.all(v).iter().map(|r| self.narrowed(e, r)).collect();
        let (address, from, space) = self.address(p, at);
        let step = at_once(e, values.len());
        for (i, part) in values.chunks(step).enumerate() {
            let (list, vector) = list(part);
            let offset = from as usize + i * step * e.size() as usize;
            self.line(&format!("st.{space}{vector}.{} [{address}+{offset}], {list}", access(e)));
        }
    }

    /// What is computed with, as what is stored.
    fn narrowed(&mut self, e: Elem, r: &str) -> Register {
        match e {
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 | Elem::U8 => r.to_string(),
            Elem::Bool => self.inst(Scalar::U32, "selp.u32", &["1", "0", r]),
            Elem::F8(_) => unreachable!("lowered to bytes"),
            Elem::F16 => self.half_of(r),
            Elem::BF16 => self.bf16_of(r),
        }
    }

    pub(super) fn atomic(&mut self, op: Atomic, p: Place, at: Value, v: Value) -> Register {
        let s = self.scalar(v);
        let (address, offset, space) = self.address(p, at);
        let op = match op {
            Atomic::Add => "add.u32".into(),
            Atomic::Min => format!("min.{}", ty(s)),
            Atomic::Max => format!("max.{}", ty(s)),
            Atomic::And => "and.b32".into(),
            Atomic::Or => "or.b32".into(),
            Atomic::Xor => "xor.b32".into(),
            Atomic::Exchange => "exch.b32".to_string(),
        };
        let v = self.one(v);
        self.inst(s, &format!("atom.{space}.{op}"), &[&format!("[{address}+{offset}]"), &v])
    }
}

/// Registers of an access, and the word for how many they are.
fn list(part: &[Register]) -> (String, &'static str) {
    match part {
        [one] => (one.clone(), ""),
        [_, _] => (format!("{{{}}}", part.join(", ")), ".v2"),
        _ => (format!("{{{}}}", part.join(", ")), ".v4"),
    }
}
