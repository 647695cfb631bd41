//! Renumbering: values in the order in which they are defined, without gaps.

use crate::ir::{Kernel, Region, Type, Value};

/// Renumbers all values. Kernels that do the same by the same instructions are equal data after it.
pub fn renumber(kernel: &mut Kernel) {
    let mut new = Renumber { to: vec![None; kernel.values.len()], types: Vec::new(), old: &kernel.values };
    new.region(&mut kernel.body);
    kernel.values = new.types;
}

struct Renumber<'a> {
    to: Vec<Option<Value>>,
    types: Vec<Type>,
    old: &'a [Type],
}

impl Renumber<'_> {
    fn define(&mut self, v: &mut Value) {
        let new = Value(self.types.len() as u32);
        self.types.push(self.old[v.0 as usize]);
        self.to[v.0 as usize] = Some(new);
        *v = new;
    }
    fn read(&self, v: &mut Value) {
        // What was never defined stays as it is: the verifier says so, with its place.
        if let Some(new) = self.to[v.0 as usize] {
            *v = new;
        }
    }
    fn region(&mut self, r: &mut Region) {
        r.args.iter_mut().for_each(|v| self.define(v));
        for inst in &mut r.insts {
            inst.op.each_operand_mut(&mut |v| self.read(v));
            for inner in inst.op.regions_mut() {
                self.region(inner);
            }
            inst.results.iter_mut().for_each(|v| self.define(v));
        }
        r.yields.iter_mut().for_each(|v| self.read(v));
    }
}
