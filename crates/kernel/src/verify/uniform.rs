//! Verifier: uniformity analysis. Which values are the same for all invocations of a workgroup, and
//! so which code all of them reach together.
//!
//! A value is uniform if nothing that it was computed from differs between invocations, and if it
//! was computed where all of them are. A load is uniform only if it reads a read-only buffer at a
//! uniform index. Two rounds over loops suffice to find out what is carried: what is once not
//! uniform stays so.

use super::{Check, at};
use crate::ir::{Builtin, Effect, Inst, Kernel, Op, Place, Region, Value};

/// Which values of a kernel are uniform.
#[derive(Clone, Debug)]
pub struct Uniformity<'a> {
    kernel: &'a Kernel,
    varies: Vec<bool>,
}

pub(super) fn check(k: &Kernel) -> Check {
    let u = Uniformity::of(k);
    u.check(&k.body, true)
}

impl<'a> Uniformity<'a> {
    /// Looks through a kernel whose scopes are in order.
    pub fn of(kernel: &'a Kernel) -> Self {
        let mut u = Uniformity { kernel, varies: vec![false; kernel.values.len()] };
        // Each round can only find more that varies, so this ends.
        while u.region(&kernel.body, true) {}
        u
    }
    /// Is a value the same for all invocations of a workgroup?
    pub fn is_uniform(&self, v: Value) -> bool {
        !self.varies[v.0 as usize]
    }

    fn mark(&mut self, v: Value, varies: bool) -> bool {
        let mark = &mut self.varies[v.0 as usize];
        let new = varies && !*mark;
        *mark |= varies;
        new
    }

    /// Marks what varies; says whether it found anything new.
    fn region(&mut self, r: &Region, together: bool) -> bool {
        let mut news = false;
        for inst in &r.insts {
            let mut varies = !together || self.source_varies(inst);
            inst.op.each_operand(&mut |v| varies |= self.varies[v.0 as usize]);
            match &inst.op {
                Op::If(c, then, other) => {
                    let same = together && self.is_uniform(*c);
                    news |= self.region(then, same) | self.region(other, same);
                    for (i, &v) in inst.results.iter().enumerate() {
                        let yields = [then, other].map(|r| self.varies[r.yields[i].0 as usize]);
                        news |= self.mark(v, !same || yields[0] || yields[1]);
                    }
                }
                Op::For { start, end, step, init, body } => {
                    let same = together && [start, end, step].into_iter().all(|v| self.is_uniform(*v));
                    news |= self.mark(body.args[0], !same);
                    for (i, &v) in inst.results.iter().enumerate() {
                        let ways = [init[i], body.yields[i]].map(|v| self.varies[v.0 as usize]);
                        let varies = !same || ways[0] || ways[1];
                        news |= self.mark(body.args[i + 1], varies) | self.mark(v, varies);
                    }
                    news |= self.region(body, same);
                }
                Op::Reduce(..) | Op::Broadcast(..) => {
                    // The same in a subgroup, not in a workgroup of several.
                    let one = self.kernel.subgroup == Some(self.kernel.invocations());
                    news |= self.mark(inst.results[0], varies && !one);
                }
                _ => {
                    for &v in &inst.results {
                        news |= self.mark(v, varies);
                    }
                }
            }
        }
        news
    }

    /// Does an instruction give different values whatever its operands are?
    fn source_varies(&self, inst: &Inst) -> bool {
        match inst.op.effect() {
            Effect::Pure => match &inst.op {
                Op::Builtin(Builtin::LocalId(axis)) => self.kernel.group[usize::from(*axis)] > 1,
                Op::Builtin(Builtin::LocalIndex | Builtin::SubgroupLane | Builtin::SubgroupId) => {
                    self.kernel.invocations() > 1
                }
                _ => false,
            },
            Effect::Load => match &inst.op {
                Op::Load(Place::Buffer(i), ..) => self.kernel.buffers[*i as usize].access.writes(),
                _ => true,
            },
            // What an atomic finds, and what another lane has.
            Effect::Store { .. } => true,
            Effect::Collective => matches!(inst.op, Op::Shuffle(..)),
            Effect::Regions => false,
        }
    }

    fn check(&self, r: &Region, together: bool) -> Check {
        for inst in &r.insts {
            if inst.op.is_together() && !together {
                return at(
                    self.kernel,
                    inst,
                    "only a part of the workgroup may come here: a condition or a bound around it differs between invocations",
                );
            }
            if matches!(inst.op, Op::TmaLoad { .. } | Op::MbarrierWait(..)) {
                let mut varies = None;
                inst.op.each_operand(&mut |v| varies = varies.or(Some(v).filter(|v| !self.is_uniform(*v))));
                if let Some(v) = varies {
                    return at(self.kernel, inst, format_args!("%{} differs between invocations", v.0));
                }
            }
            let same = together
                && match &inst.op {
                    Op::If(c, ..) => self.is_uniform(*c),
                    Op::For { start, end, step, .. } => {
                        [start, end, step].into_iter().all(|v| self.is_uniform(*v))
                    }
                    _ => true,
                };
            for inner in inst.op.regions() {
                self.check(inner, same)?;
            }
        }
        Ok(())
    }
}
