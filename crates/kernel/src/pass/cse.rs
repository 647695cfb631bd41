//! Common subexpression elimination: computes once what is computed twice from the same values.
//!
//! Only pure instructions, and only where the first result dominates the second.

use super::renumber;
use super::replacement::Replacements;
use crate::ir::{Kernel, Op, Region, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Shares what is the same.
pub fn cse(k: &mut Kernel) {
    let mut s = Cse { known: FxHashMap::default(), replacements: Replacements::default() };
    s.region(&mut k.body);
    renumber(k);
}

struct Cse {
    /// What pure instructions in sight gave.
    known: FxHashMap<Rc<Op>, Value>,
    replacements: Replacements,
}

impl Cse {
    fn region(&mut self, r: &mut Region) {
        let mut mine = Vec::new();
        let insts = std::mem::take(&mut r.insts);
        for mut inst in insts {
            inst.op.each_operand_mut(&mut |v| self.replacements.replace(v));
            for inner in inst.op.regions_mut() {
                self.region(inner);
            }
            if inst.op.is_pure() {
                if let Some(&other) = self.known.get(&inst.op) {
                    self.replacements.put(inst.results[0], other);
                    continue;
                }
                let op = Rc::new(inst.op.clone());
                self.known.insert(Rc::clone(&op), inst.results[0]);
                mine.push(op);
            }
            r.insts.push(inst);
        }
        self.replacements.replace_yields(r);
        // Out of this region its values are out of sight.
        for op in mine {
            self.known.remove(&op);
        }
    }
}
