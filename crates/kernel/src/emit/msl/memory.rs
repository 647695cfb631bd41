//! MSL: buffers, parameters, threadgroup memory, atomics, barriers.
//!
//! Vectors of up to 16 bytes are loaded and stored at once, by pointers to vectors. Truth values
//! are bytes in memory, and bf16 are their bits.

use super::arith::half_name;
use super::functions::Function;
use super::{MslPrinter, vector_name};
use crate::ir::{Access, Atomic, Elem, Place, Scalar, Value};
use std::fmt::Write;

/// What a place of memory holds.
fn elem_name(e: Elem) -> &'static str {
    match e {
        Elem::Bool | Elem::U8 => "uchar",
        Elem::I32 => "int",
        Elem::U32 => "uint",
        Elem::I64 => "long",
        Elem::U64 => "ulong",
        Elem::F16 => "half",
        Elem::BF16 => "ushort",
        Elem::F32 => "float",
        Elem::F8(_) | Elem::F64 => unreachable!("lowered or refused"),
    }
}
/// A vector of them.
fn elems_name(e: Elem, width: u8) -> String {
    if width == 1 { elem_name(e).to_string() } else { format!("{}{width}", elem_name(e)) }
}

impl MslPrinter<'_> {
    /// The words before a type that is pointed to.
    pub(super) fn space(&self, p: Place) -> &'static str {
        match p {
            Place::Buffer(i) if self.k.buffers[i as usize].access == Access::Read => "device const",
            Place::Buffer(_) => "device",
            Place::Shared(_) => "threadgroup",
        }
    }

    /// The parameters of a launch as a struct.
    pub(super) fn params(&self) -> String {
        let mut all = "struct Params {\n".to_string();
        for (i, p) in self.k.params.iter().enumerate() {
            let _ = writeln!(all, "  {} p{i}; // {}", vector_name(p.scalar, 1), p.name);
        }
        all += "  uint zero;\n};\n";
        all
    }
    /// The parameters of the function that are memory.
    pub(super) fn buffers(&self) -> String {
        let mut all = String::new();
        for (i, b) in self.k.buffers.iter().enumerate() {
            let (space, elem) = (self.space(Place::Buffer(i as u32)), elem_name(b.elem));
            let _ = writeln!(all, "  {space} {elem}* b{i} [[buffer({i})]], // {}", b.name);
        }
        let _ = writeln!(all, "  constant Params& params [[buffer({})]],", self.k.buffers.len());
        all
    }
    /// Threadgroup memory, which begins where any vector may.
    pub(super) fn shared(&self) -> String {
        let mut all = String::new();
        for (i, s) in self.k.shared.iter().enumerate() {
            let elem = elem_name(s.elem);
            let _ = writeln!(all, "  alignas(16) threadgroup {elem} s{i}[{}]; // {}", s.len, s.name);
        }
        all
    }

    /// One element, `at + more`.
    fn one(&self, p: Place, at: Value, more: u8) -> String {
        let (name, at) = self.place(p, at);
        if more == 0 { format!("{name}[{at}]") } else { format!("{name}[{at} + {more}]") }
    }
    /// Is a vector loaded and stored at once?
    fn at_once(&self, p: Place, width: u8) -> bool {
        width > 1 && self.elem(p).size() * u32::from(width) <= 16
    }
    /// A vector in memory.
    fn vector(&self, p: Place, at: Value, width: u8) -> String {
        let (name, at) = self.place(p, at);
        format!("*({} {}*)({name} + {at})", self.space(p), elems_name(self.elem(p), width))
    }

    pub(super) fn load(&mut self, p: Place, at: Value, width: u8) -> String {
        let elem = self.elem(p);
        if width > 1 && !self.at_once(p, width) {
            return self.each(elem.scalar(), width, |i| self.one(p, at, i));
        }
        let raw = if width == 1 { self.one(p, at, 0) } else { self.vector(p, at, width) };
        let ty = vector_name(elem.scalar(), width);
        match elem {
            Elem::Bool => format!("{raw} != {}(0)", elems_name(elem, width)),
            Elem::U8 | Elem::F16 => format!("{ty}({raw})"),
            Elem::BF16 if width == 1 => {
                self.calls(Function::Bf16Value);
                format!("{}({raw})", Function::Bf16Value.name())
            }
            Elem::BF16 => {
                let word = vector_name(Scalar::U32, width);
                format!("as_type<{ty}>({word}({raw}) << {word}(16))")
            }
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 => raw,
            Elem::F8(_) | Elem::F64 => unreachable!("lowered or refused"),
        }
    }

    pub(super) fn store(&mut self, p: Place, at: Value, v: Value) {
        let (elem, width) = (self.elem(p), self.width(v));
        if elem == Elem::BF16 {
            self.calls(Function::Bf16Bits);
        }
        let one = |x: String| match elem {
            Elem::Bool | Elem::U8 => format!("uchar({x})"),
            Elem::F16 => format!("half({x})"),
            Elem::BF16 => format!("{}({x})", Function::Bf16Bits.name()),
            Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 => x,
            Elem::F8(_) | Elem::F64 => unreachable!("lowered or refused"),
        };
        if !self.at_once(p, width) {
            for i in 0..width {
                let text = format!("{} = {};", self.one(p, at, i), one(self.element(v, i)));
                self.line(&text);
            }
            return;
        }
        let all = match elem {
            Elem::F16 => format!("{}({})", half_name(width), self.name(v)),
            // Truth values, and what is rounded, one by one.
            Elem::Bool | Elem::U8 | Elem::BF16 => {
                let all: Vec<String> = (0..width).map(|i| one(self.element(v, i))).collect();
                format!("{}({})", elems_name(elem, width), all.join(", "))
            }
            _ => self.name(v).to_string(),
        };
        let text = format!("{} = {all};", self.vector(p, at, width));
        self.line(&text);
    }

    pub(super) fn atomic(&self, op: Atomic, p: Place, at: Value, v: Value) -> String {
        let (name, at) = self.place(p, at);
        let place = format!("({} atomic_{}*)({name} + {at})", self.space(p), elem_name(self.elem(p)));
        let function = match op {
            // Memory stays as it is.
            Atomic::Or if self.fixed(v).is_some_and(|c| c.bits == 0) => {
                return format!("atomic_load_explicit({place}, memory_order_relaxed)");
            }
            Atomic::Add => "atomic_fetch_add_explicit",
            Atomic::Min => "atomic_fetch_min_explicit",
            Atomic::Max => "atomic_fetch_max_explicit",
            Atomic::And => "atomic_fetch_and_explicit",
            Atomic::Or => "atomic_fetch_or_explicit",
            Atomic::Xor => "atomic_fetch_xor_explicit",
            Atomic::Exchange => "atomic_exchange_explicit",
        };
        format!("{function}({place}, {}, memory_order_relaxed)", self.name(v))
    }

    pub(super) fn barrier(&mut self) {
        // What one invocation stores to a buffer, another of its threadgroup loads after a barrier.
        let device = self.k.buffers.iter().any(|b| b.access == Access::ReadWrite);
        let flags = match device {
            true => "mem_flags::mem_device | mem_flags::mem_threadgroup",
            false => "mem_flags::mem_threadgroup",
        };
        self.line(&format!("threadgroup_barrier({flags});"));
    }
}
