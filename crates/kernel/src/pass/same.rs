//! Computes once what is computed twice from the same values.
//!
//! Only pure instructions, and only where the first result is in sight of the second.

use super::compact;
use crate::ir::{Kernel, Op, Region, Value};
use std::collections::HashMap;

/// Shares what is the same.
pub fn share(k: &mut Kernel) {
    let mut s = Share { known: HashMap::new(), instead: HashMap::new() };
    s.region(&mut k.body);
    compact(k);
}

struct Share {
    /// What pure instructions in sight gave.
    known: HashMap<Op, Value>,
    /// Values that are no more, and those that stand for them.
    instead: HashMap<Value, Value>,
}

impl Share {
    fn region(&mut self, r: &mut Region) {
        let mut mine = Vec::new();
        let insts = std::mem::take(&mut r.insts);
        for mut inst in insts {
            inst.op.each_operand_mut(&mut |v| {
                if let Some(&other) = self.instead.get(v) {
                    *v = other;
                }
            });
            for inner in inst.op.regions_mut() {
                self.region(inner);
            }
            if inst.op.is_pure() {
                if let Some(&other) = self.known.get(&inst.op) {
                    self.instead.insert(inst.results[0], other);
                    continue;
                }
                self.known.insert(inst.op.clone(), inst.results[0]);
                mine.push(inst.op.clone());
            }
            r.insts.push(inst);
        }
        for v in &mut r.yields {
            if let Some(&other) = self.instead.get(v) {
                *v = other;
            }
        }
        // Out of this region its values are out of sight.
        for op in mine {
            self.known.remove(&op);
        }
    }
}
