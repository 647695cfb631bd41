//! WGSL: buffers, parameters, shared memory, atomics, barriers.
//!
//! A vector is loaded and stored number by number. Memory with atomics is of atomic words, and
//! loads and stores of it are atomics, too.

use super::{WgslPrinter, elem_name, scalar_name};
use crate::ir::{Access, Atomic, Kernel, Op, Place, Value};
use std::fmt::Write;

/// Which buffers, and which pieces of shared memory, have atomics.
pub(super) fn places_with_atomics(k: &Kernel) -> [Vec<bool>; 2] {
    let mut all = [vec![false; k.buffers.len()], vec![false; k.shared.len()]];
    k.body.each_inst(&mut |inst| match inst.op {
        Op::Atomic(_, Place::Buffer(i), ..) => all[0][i as usize] = true,
        Op::Atomic(_, Place::Shared(i), ..) => all[1][i as usize] = true,
        _ => {}
    });
    all
}

impl WgslPrinter<'_> {
    fn is_atomic(&self, p: Place) -> bool {
        match p {
            Place::Buffer(i) => self.state[0][i as usize],
            Place::Shared(i) => self.state[1][i as usize],
        }
    }

    /// The declarations.
    pub(super) fn memory(&self) -> String {
        let mut all = String::new();
        let elem = |p: Place, name: &str| match self.is_atomic(p) {
            true => format!("atomic<{name}>"),
            false => name.to_string(),
        };
        for (i, b) in self.k.buffers.iter().enumerate() {
            let access = match b.access {
                Access::Read => "read",
                // There are no buffers that are only written to.
                Access::Write | Access::ReadWrite => "read_write",
            };
            let elem = elem(Place::Buffer(i as u32), elem_name(b.elem));
            let _ = writeln!(
                all,
                "@group(0) @binding({i}) var<storage, {access}> b{i}: array<{elem}>; // {}",
                b.name
            );
        }
        all += "struct Params {\n";
        for (i, p) in self.k.params.iter().enumerate() {
            let _ = writeln!(all, "  p{i}: {}, // {}", scalar_name(p.scalar), p.name);
        }
        let _ = writeln!(
            all,
            "  zero: u32,\n}}\n@group(0) @binding({}) var<uniform> params: Params;",
            self.k.buffers.len()
        );
        for (i, s) in self.k.shared.iter().enumerate() {
            let elem = elem(Place::Shared(i as u32), elem_name(s.elem));
            let _ = writeln!(all, "var<workgroup> s{i}: array<{elem}, {}>; // {}", s.len, s.name);
        }
        all
    }

    /// One element, `at + more`.
    fn one(&self, p: Place, at: Value, more: u8) -> String {
        let (name, index) = self.place(p, at);
        match more {
            0 => format!("{name}[{index}]"),
            _ if self.scalar(at).is_signed() => format!("{name}[{index} + {more}i]"),
            _ => format!("{name}[{index} + {more}u]"),
        }
    }

    pub(super) fn load(&self, p: Place, at: Value, width: u8) -> String {
        self.each(self.elem(p).scalar(), width, |i| {
            let place = self.one(p, at, i);
            if self.is_atomic(p) { format!("atomicLoad(&{place})") } else { place }
        })
    }

    pub(super) fn store(&mut self, p: Place, at: Value, v: Value) {
        for i in 0..self.width(v) {
            let (place, x) = (self.one(p, at, i), self.element(v, i));
            let text = match self.is_atomic(p) {
                true => format!("atomicStore(&{place}, {x});"),
                false => format!("{place} = {x};"),
            };
            self.line(&text);
        }
    }

    pub(super) fn atomic(&self, op: Atomic, p: Place, at: Value, v: Value) -> String {
        let place = self.one(p, at, 0);
        let name = match op {
            // Memory stays as it is.
            Atomic::Or if self.fixed(v).is_some_and(|c| c.bits == 0) => {
                return format!("atomicLoad(&{place})");
            }
            Atomic::Add => "atomicAdd",
            Atomic::Min => "atomicMin",
            Atomic::Max => "atomicMax",
            Atomic::And => "atomicAnd",
            Atomic::Or => "atomicOr",
            Atomic::Xor => "atomicXor",
            Atomic::Exchange => "atomicExchange",
        };
        format!("{name}(&{place}, {})", self.name(v))
    }

    pub(super) fn barrier(&mut self) {
        // What one invocation stores to a buffer, another of its workgroup loads after a barrier.
        if self.k.buffers.iter().any(|b| b.access == Access::ReadWrite) {
            self.line("storageBarrier();");
        }
        self.line("workgroupBarrier();");
    }
}
