//! SPIR-V: branches, loops, barriers.

use super::Emitter;
use super::code::{Code, NONE, Scope, semantics};
use super::module::Word;
use crate::ir::{Region, Type, Value};
use crate::pass::Unsupported;

impl Emitter<'_> {
    pub(super) fn barrier(&mut self) {
        let memory = semantics::ACQUIRE_RELEASE
            | semantics::WORKGROUP_MEMORY
            | semantics::UNIFORM_MEMORY
            | self.availability();
        let (scope, memory) = (self.uint(Scope::Workgroup as u32), self.uint(memory));
        self.does(Code::ControlBarrier, &[scope, scope, memory]);
    }

    pub(super) fn branch(
        &mut self,
        c: Value,
        then: &Region,
        other: &Region,
        results: &[Value],
    ) -> Result<Vec<Word>, Unsupported> {
        let [yes, no, after] = std::array::from_fn(|_| self.b.id());
        let c = self.id(c);
        self.does(Code::SelectionMerge, &[after, NONE]);
        self.does(Code::BranchConditional, &[c, yes, no]);
        let mut ends = Vec::new();
        for (label, r) in [(yes, then), (no, other)] {
            self.begin(label);
            self.region(r)?;
            ends.push((r, self.label));
            self.does(Code::Branch, &[after]);
        }
        self.begin(after);
        let mut all = Vec::new();
        for (i, &v) in results.iter().enumerate() {
            let ty = self.word(self.ty(v));
            let from: Vec<Word> = ends.iter().flat_map(|(r, label)| [self.id(r.yields[i]), *label]).collect();
            all.push(self.inst(Code::Phi, ty, &from));
        }
        Ok(all)
    }

    /// A header that collects the index and what is carried, the body, and a block that goes back.
    pub(super) fn repeat(
        &mut self,
        [start, end, step]: [Value; 3],
        init: &[Value],
        body: &Region,
    ) -> Result<Vec<Word>, Unsupported> {
        let [header, check, turn, back, after] = std::array::from_fn(|_| self.b.id());
        let before = self.label;
        self.does(Code::Branch, &[header]);
        self.begin(header);
        // What comes from the last turn has no name yet: it gets one here, and is copied to it
        // there.
        let firsts: Vec<Value> = std::iter::once(start).chain(init.iter().copied()).collect();
        let nexts: Vec<Word> = firsts.iter().map(|_| self.b.id()).collect();
        let mut carried = Vec::new();
        for (i, &v) in firsts.iter().enumerate() {
            let (ty, first, next) = (self.word(self.ty(v)), self.id(v), nexts[i]);
            let phi = self.inst(Code::Phi, ty, &[first, before, next, back]);
            self.ids[body.args[i].0 as usize] = phi;
            carried.push(phi);
        }
        self.does(Code::LoopMerge, &[after, back, NONE]);
        self.does(Code::Branch, &[check]);

        self.begin(check);
        let index = self.ty(start);
        let less = match index {
            Type::Vector(s, _) if s.is_signed() => Code::SLessThan,
            Type::Vector(..) | Type::Fragment(_) => Code::ULessThan,
        };
        let (bool, end) = (self.word(Type::BOOL), self.id(end));
        let goes = self.inst(less, bool, &[carried[0], end]);
        self.does(Code::BranchConditional, &[goes, turn, after]);

        self.begin(turn);
        self.region(body)?;
        self.does(Code::Branch, &[back]);

        self.begin(back);
        let (ty, step, next) = (self.word(index), self.id(step), nexts[0]);
        let here = carried[0];
        self.inst_as(next, Code::IAdd, ty, &[here, step]);
        for (&v, &next) in body.yields.iter().zip(&nexts[1..]) {
            let (ty, v) = (self.word(self.ty(v)), self.id(v));
            self.inst_as(next, Code::CopyObject, ty, &[v]);
        }
        self.does(Code::Branch, &[header]);

        self.begin(after);
        Ok(carried.split_off(1))
    }
}
