//! Verifier: values are defined once, before they are used, and used only where they are visible
//! (dominance).

use super::{Check, at, whole};
use crate::ir::{Kernel, Op, Region, Value};

pub(super) fn check(k: &Kernel) -> Check {
    let mut s = Scope { kernel: k, visible: vec![false; k.values.len()], next: 0 };
    s.region(&k.body)?;
    if s.next != k.values.len() {
        return whole(
            k,
            format_args!("{} values are in the table, and {} are defined", k.values.len(), s.next),
        );
    }
    if !k.body.args.is_empty() || !k.body.yields.is_empty() {
        return whole(k, "the body takes or yields values");
    }
    Ok(())
}

struct Scope<'a> {
    kernel: &'a Kernel,
    /// Which values can be used here.
    visible: Vec<bool>,
    /// The number that the next value must have.
    next: usize,
}

impl Scope<'_> {
    fn define(&mut self, v: Value) -> Check {
        if v.0 as usize != self.next || self.next >= self.kernel.values.len() {
            let next = self.next;
            return whole(self.kernel, format_args!("%{} is defined where %{next} should be", v.0));
        }
        self.visible[self.next] = true;
        self.next += 1;
        Ok(())
    }
    fn region(&mut self, r: &Region) -> Check {
        let first = self.next;
        for &v in &r.args {
            self.define(v)?;
        }
        for inst in &r.insts {
            let mut hidden = None;
            inst.op.each_operand(&mut |v| {
                if !self.visible.get(v.0 as usize).is_some_and(|&seen| seen) {
                    hidden = Some(v);
                }
            });
            if let Some(v) = hidden {
                return at(
                    self.kernel,
                    inst,
                    format_args!("%{} is not defined before, or not in sight", v.0),
                );
            }
            if let Op::If(_, then, other) = &inst.op
                && let Some(r) = [then, other].into_iter().find(|r| !r.args.is_empty())
            {
                return at(self.kernel, inst, format_args!("a branch takes {} values", r.args.len()));
            }
            if let Op::For { init, body, .. } = &inst.op
                && body.args.len() != init.len() + 1
            {
                let n = body.args.len();
                return at(self.kernel, inst, format_args!("{n} arguments for an index and {}", init.len()));
            }
            for inner in inst.op.regions() {
                self.region(inner)?;
                if inner.yields.len() != inst.results.len() {
                    let (n, m) = (inner.yields.len(), inst.results.len());
                    return at(self.kernel, inst, format_args!("a region yields {n} values for {m} results"));
                }
            }
            for &v in &inst.results {
                self.define(v)?;
            }
        }
        for v in &r.yields {
            if !self.visible.get(v.0 as usize).is_some_and(|&seen| seen) {
                return whole(self.kernel, format_args!("%{} is yielded, and not in sight there", v.0));
            }
        }
        // What was defined in here is out of sight from now on.
        self.visible[first..self.next].fill(false);
        Ok(())
    }
}
