//! PTX: branches and loops.

use super::{Emitter, Register, ty};
use crate::ir::{Region, Value};
use crate::pass::Unsupported;

impl Emitter<'_> {
    /// New registers for a value.
    fn fresh(&mut self, v: Value) -> Vec<Register> {
        let (s, count) = self.registers_of(v);
        (0..count).map(|_| self.scalar_register(s)).collect()
    }
    /// Copies a value into registers.
    fn assign(&mut self, to: &[Register], v: Value) {
        let (s, _) = self.registers_of(v);
        for (to, from) in to.iter().zip(self.all(v)) {
            self.copy(s, to, &from);
        }
    }

    pub(super) fn branch(
        &mut self,
        c: Value,
        then: &Region,
        other: &Region,
        results: &[Value],
    ) -> Result<(), Unsupported> {
        let to: Vec<Vec<Register>> = results.iter().map(|&v| self.fresh(v)).collect();
        let c = self.one(c);
        // Where there is nothing to do otherwise, results are what they would be before anybody
        // branches. A load under a condition is so one instruction; with a copy on either side,
        // NVIDIA's assembler keeps the condition until the load is done, and there are seven
        // registers for conditions.
        let nothing = other.insts.is_empty();
        let no = self.label();
        if nothing {
            for (to, &v) in to.iter().zip(&other.yields) {
                self.assign(to, v);
            }
        }
        self.line(&format!("@!{c} bra {no}"));
        self.region(then)?;
        for (to, &v) in to.iter().zip(&then.yields) {
            self.assign(to, v);
        }
        if nothing {
            self.place(&no);
            for (&v, to) in results.iter().zip(to) {
                self.values[v.0 as usize] = to;
            }
            return Ok(());
        }
        let after = self.label();
        self.line(&format!("bra {after}"));
        self.place(&no);
        self.region(other)?;
        for (to, &v) in to.iter().zip(&other.yields) {
            self.assign(to, v);
        }
        self.place(&after);
        for (&v, to) in results.iter().zip(to) {
            self.values[v.0 as usize] = to;
        }
        Ok(())
    }

    pub(super) fn repeat(
        &mut self,
        [start, end, step]: [Value; 3],
        init: &[Value],
        body: &Region,
        results: &[Value],
    ) -> Result<(), Unsupported> {
        let (again, after) = (self.label(), self.label());
        // The index and what is carried.
        let firsts: Vec<Value> = std::iter::once(start).chain(init.iter().copied()).collect();
        let carried: Vec<Vec<Register>> = firsts.iter().map(|&v| self.fresh(v)).collect();
        for (to, &v) in carried.iter().zip(&firsts) {
            self.assign(to, v);
        }
        for (&arg, registers) in body.args.iter().zip(&carried) {
            self.values[arg.0 as usize] = registers.clone();
            self.own[arg.0 as usize] = true;
        }
        let (s, index, end, step) =
            (self.scalar(start), carried[0][0].clone(), self.one(end), self.one(step));
        self.place(&again);
        let ends = self.inst(crate::ir::Scalar::Bool, &format!("setp.ge.{}", ty(s)), &[&index, &end]);
        self.line(&format!("@{ends} bra {after}"));
        self.region(body)?;
        // What is where it is carried stays there; sums of products that are under way must not
        // even be copied. All else may be yielded in another order than it is carried in, so it is
        // put aside first.
        let moved: Vec<(&Vec<Register>, Value)> = (carried[1..].iter().zip(&body.yields))
            .filter(|(to, v)| self.values[v.0 as usize] != **to)
            .map(|(to, &v)| (to, v))
            .collect();
        let aside: Vec<Vec<Register>> = moved.iter().map(|&(_, v)| self.fresh(v)).collect();
        for (to, &(_, v)) in aside.iter().zip(&moved) {
            self.assign(to, v);
        }
        for ((to, v), from) in moved.iter().zip(&aside) {
            let (s, _) = self.registers_of(*v);
            for (to, from) in to.iter().zip(from) {
                self.copy(s, to, from);
            }
        }
        self.line(&format!("add.{} {index}, {index}, {step}", ty(s)));
        self.line(&format!("bra {again}"));
        self.place(&after);
        for (&v, registers) in results.iter().zip(&carried[1..]) {
            self.values[v.0 as usize] = registers.clone();
            self.own[v.0 as usize] = true;
        }
        Ok(())
    }
}
