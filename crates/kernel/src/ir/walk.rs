//! Going through instructions: what they read, what they hold.

use super::kernel::{Inst, Region, Value};
use super::op::Op;

impl Op {
    /// Calls `f` for each value that the instruction itself reads (its regions read more).
    pub fn each_operand(&self, f: &mut dyn FnMut(Value)) {
        // One list of who reads what: reading goes through a copy of what changing goes through.
        match self {
            Op::Const(_) | Op::Param(_) | Op::Builtin(_) | Op::Barrier => {}
            Op::Unary(_, a)
            | Op::Convert(_, a)
            | Op::Whole(a)
            | Op::Bits(_, a)
            | Op::Splat(_, a)
            | Op::Extract(a, _)
            | Op::Load(_, a, _)
            | Op::Broadcast(a, _)
            | Op::Reduce(_, a)
            | Op::FragmentFill(_, a)
            | Op::If(a, _, _) => f(*a),
            Op::Binary(_, a, b)
            | Op::Compare(_, a, b)
            | Op::Store(_, a, b)
            | Op::Atomic(_, _, a, b)
            | Op::Shuffle(a, b)
            | Op::FragmentLoad(_, _, _, a, b) => [a, b].into_iter().for_each(|v| f(*v)),
            Op::Fma(a, b, c)
            | Op::Select(a, b, c)
            | Op::FragmentMulAdd(a, b, c)
            | Op::FragmentStore(_, _, a, b, c) => [a, b, c].into_iter().for_each(|v| f(*v)),
            Op::Compose(all) => all.iter().for_each(|v| f(*v)),
            Op::For { start, end, step, init, .. } => {
                [start, end, step].into_iter().chain(init).for_each(|v| f(*v));
            }
        }
    }
    /// Calls `f` for each value that the instruction itself reads, to change it.
    pub fn each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        match self {
            Op::Const(_) | Op::Param(_) | Op::Builtin(_) | Op::Barrier => {}
            Op::Unary(_, a)
            | Op::Convert(_, a)
            | Op::Whole(a)
            | Op::Bits(_, a)
            | Op::Splat(_, a)
            | Op::Extract(a, _)
            | Op::Load(_, a, _)
            | Op::Broadcast(a, _)
            | Op::Reduce(_, a)
            | Op::FragmentFill(_, a)
            | Op::If(a, _, _) => f(a),
            Op::Binary(_, a, b)
            | Op::Compare(_, a, b)
            | Op::Store(_, a, b)
            | Op::Atomic(_, _, a, b)
            | Op::Shuffle(a, b)
            | Op::FragmentLoad(_, _, _, a, b) => [a, b].into_iter().for_each(f),
            Op::Fma(a, b, c)
            | Op::Select(a, b, c)
            | Op::FragmentMulAdd(a, b, c)
            | Op::FragmentStore(_, _, a, b, c) => [a, b, c].into_iter().for_each(f),
            Op::Compose(all) => all.iter_mut().for_each(f),
            Op::For { start, end, step, init, .. } => {
                [start, end, step].into_iter().chain(init).for_each(f);
            }
        }
    }
    /// The regions that the instruction holds.
    pub fn regions(&self) -> Vec<&Region> {
        if let Op::If(_, then, other) = self {
            return vec![then, other];
        }
        if let Op::For { body, .. } = self { vec![body] } else { Vec::new() }
    }
    /// The regions that the instruction holds, to change them.
    pub fn regions_mut(&mut self) -> Vec<&mut Region> {
        if let Op::If(_, then, other) = self {
            return vec![then, other];
        }
        if let Op::For { body, .. } = self { vec![body] } else { Vec::new() }
    }
    /// Does the instruction only compute its results from its operands, so that it may be computed earlier, once
    /// instead of twice, or not at all? Loads are not: memory changes.
    pub fn is_pure(&self) -> bool {
        match self {
            Op::Const(_)
            | Op::Param(_)
            | Op::Builtin(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Convert(..)
            | Op::Whole(_)
            | Op::Bits(..)
            | Op::Splat(..)
            | Op::Compose(_)
            | Op::Extract(..) => true,
            // Uniform instructions stay where they are.
            Op::Load(..)
            | Op::Store(..)
            | Op::Atomic(..)
            | Op::Barrier
            | Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..)
            | Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..)
            | Op::FragmentStore(..)
            | Op::If(..)
            | Op::For { .. } => false,
        }
    }
    /// Does the instruction change memory, or wait for others, itself or in its regions?
    pub fn has_effect(&self) -> bool {
        match self {
            Op::Store(..) | Op::Atomic(..) | Op::Barrier | Op::FragmentStore(..) => true,
            Op::If(..) | Op::For { .. } => {
                self.regions().into_iter().any(|r| r.insts.iter().any(|i| i.op.has_effect()))
            }
            Op::Const(_)
            | Op::Param(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Compare(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Convert(..)
            | Op::Whole(_)
            | Op::Bits(..)
            | Op::Splat(..)
            | Op::Compose(_)
            | Op::Extract(..)
            | Op::Builtin(_)
            | Op::Load(..)
            | Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..)
            | Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..) => false,
        }
    }
}

impl Region {
    /// Calls `f` for each instruction, those inside of other instructions after them.
    pub fn each_inst<'a>(&'a self, f: &mut dyn FnMut(&'a Inst)) {
        for inst in &self.insts {
            f(inst);
            for r in inst.op.regions() {
                r.each_inst(f);
            }
        }
    }
}
