//! LLVM IR: branches and loops. What they yield are phis.

use super::{Assembler, Operand, ty};
use crate::ir::{Region, Value};
use crate::pass::Unsupported;
use std::fmt::Write;

impl Assembler<'_> {
    /// Phis of a value that comes from two blocks: one for each of its operands.
    fn phis(&mut self, like: Value, from: [(&[Operand], &str); 2]) -> Vec<Operand> {
        let t = self.part_type(like);
        let [(a, x), (b, y)] = from;
        let pairs: Vec<String> =
            a.iter().zip(b).map(|(a, b)| format!("phi {t} [ {a}, %{x} ], [ {b}, %{y} ]")).collect();
        pairs.iter().map(|text| self.inst(text)).collect()
    }

    pub(super) fn branch(
        &mut self,
        c: Value,
        then: &Region,
        other: &Region,
        results: &[Value],
    ) -> Result<(), Unsupported> {
        let [yes, no, after] = std::array::from_fn(|_| self.label());
        let c = self.one(c);
        self.line(&format!("br i1 {c}, label %{yes}, label %{no}"));
        let mut ends = Vec::new();
        for (label, r) in [(&yes, then), (&no, other)] {
            self.begin(label);
            self.region(r)?;
            ends.push(self.block.clone());
            self.line(&format!("br label %{after}"));
        }
        self.begin(&after);
        for (i, &v) in results.iter().enumerate() {
            let (a, b) = (self.all(then.yields[i]), self.all(other.yields[i]));
            self.values[v.0 as usize] = self.phis(v, [(&a, &ends[0]), (&b, &ends[1])]);
        }
        Ok(())
    }

    /// A header with the phis of the index and of what is carried, and the body. What comes from
    /// the last turn has a name only after the body was written, so the header is written last.
    pub(super) fn repeat(
        &mut self,
        [start, end, step]: [Value; 3],
        init: &[Value],
        body: &Region,
        results: &[Value],
    ) -> Result<(), Unsupported> {
        let [header, turn, after] = std::array::from_fn(|_| self.label());
        let s = self.scalar(start);
        let (end, step, before) = (self.one(end), self.one(step), self.block.clone());
        self.line(&format!("br label %{header}"));
        let firsts: Vec<Value> = std::iter::once(start).chain(init.iter().copied()).collect();
        let carried: Vec<Vec<Operand>> = firsts.iter().map(|&v| self.fresh(self.all(v).len())).collect();
        for (&arg, names) in body.args.iter().zip(&carried) {
            self.values[arg.0 as usize] = names.clone();
        }
        let ahead = std::mem::take(&mut self.body);
        let index = carried[0][0].clone();
        let less = if s.is_signed() { "slt" } else { "ult" };
        let goes = self.inst(&format!("icmp {less} {} {index}, {end}", ty(s)));
        self.line(&format!("br i1 {goes}, label %{turn}, label %{after}"));
        self.begin(&turn);
        self.region(body)?;
        let next = self.inst(&format!("add {} {index}, {step}", ty(s)));
        let last = self.block.clone();
        self.line(&format!("br label %{header}"));
        let nexts = std::iter::once(vec![next]).chain(body.yields.iter().map(|&v| self.all(v)));
        let nexts: Vec<Vec<Operand>> = nexts.collect();
        let rest = std::mem::replace(&mut self.body, ahead);
        self.begin(&header);
        for ((&v, names), next) in firsts.iter().zip(&carried).zip(&nexts) {
            let t = self.part_type(v);
            for ((name, first), next) in names.iter().zip(self.all(v)).zip(next) {
                let _ = writeln!(self.body, "  {name} = phi {t} [ {first}, %{before} ], [ {next}, %{last} ]");
            }
        }
        self.body += &rest;
        self.begin(&after);
        for (&v, names) in results.iter().zip(&carried[1..]) {
            self.values[v.0 as usize] = names.clone();
        }
        Ok(())
    }
}
