//! IR: visitors and effects: the operands of instructions, their regions, and what they do to
//! memory and to other invocations.

use super::kernel::{Inst, Region, Value};
use super::op::Op;
use super::tensor_view::TmaTile;

/// What an instruction has to do with memory and with other invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only computes its results from its operands, so it may be computed earlier, once instead
    /// of twice, or not at all.
    Pure,
    /// It looks at memory, which changes.
    Load,
    /// It changes memory, or waits for others.
    Store {
        /// Is it reached by a whole workgroup or not at all?
        together: bool,
    },
    /// Lanes work together; a whole workgroup reaches it, or none of it.
    Collective,
    /// It holds instructions.
    Regions,
}

/// Calls `$f` for each value that `$op` itself reads; references are as those to `$op`.
macro_rules! each_operand {
    ($op:expr, $f:expr) => {
        match $op {
            Op::Const(_)
            | Op::Param(_)
            | Op::Builtin(_)
            | Op::Barrier
            | Op::CpAsyncCommit
            | Op::CpAsyncWait(_)
            | Op::WgmmaWait(_) => {}
            Op::Unary(_, a)
            | Op::Convert(_, a)
            | Op::FpToSi(a)
            | Op::Bitcast(_, a)
            | Op::Splat(_, a)
            | Op::Extract(a, _)
            | Op::Load(_, a, _)
            | Op::Broadcast(a, _)
            | Op::Reduce(_, a)
            | Op::FragmentFill(_, a)
            | Op::FragmentExtract(a, _)
            | Op::If(a, _, _) => $f(a),
            Op::Binary(_, a, b)
            | Op::Compare(_, a, b)
            | Op::Store(_, a, b)
            | Op::Atomic(_, _, a, b)
            | Op::Shuffle(a, b)
            | Op::MbarrierWait(a, b)
            | Op::FragmentLoad(_, _, _, a, b) => [a, b].into_iter().for_each($f),
            Op::Fma(a, b, c)
            | Op::Select(a, b, c)
            | Op::FragmentMulAdd(a, b, c)
            | Op::FragmentStore(_, _, a, b, c) => [a, b, c].into_iter().for_each($f),
            Op::CpAsync { at, index, there, .. } => [at, index, there].into_iter().for_each($f),
            Op::TmaLoad { mbarrier, tiles } => {
                $f(mbarrier);
                for TmaTile { at, from: [i, line, plane], .. } in tiles {
                    [at, i, line, plane].into_iter().for_each(&mut *$f);
                }
            }
            Op::WgmmaSs { a: (_, _, a), b: (_, _, b), sums } => [a, b].into_iter().chain(sums).for_each($f),
            Op::WgmmaRs { a, b: (_, _, b), sums } => a.into_iter().chain([b]).chain(sums).for_each($f),
            Op::Compose(all) | Op::FragmentCompose(_, all) => all.into_iter().for_each($f),
            Op::For { start, end, step, init, .. } => {
                [start, end, step].into_iter().chain(init).for_each($f);
            }
        }
    };
}

impl Op {
    /// Calls `f` for each value that the instruction itself reads (its regions read more).
    pub fn each_operand(&self, f: &mut dyn FnMut(Value)) {
        each_operand!(self, &mut |v: &Value| f(*v));
    }
    /// Calls `f` for each value that the instruction itself reads, to change it.
    pub fn each_operand_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        each_operand!(self, f);
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
    /// What the instruction has to do with memory and with other invocations.
    pub fn effect(&self) -> Effect {
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
            | Op::FpToSi(_)
            | Op::Bitcast(..)
            | Op::Splat(..)
            | Op::Compose(_)
            | Op::Extract(..) => Effect::Pure,
            Op::Load(..) => Effect::Load,
            Op::Store(..) | Op::Atomic(..) | Op::CpAsync { .. } => Effect::Store { together: false },
            Op::Barrier
            | Op::CpAsyncCommit
            | Op::CpAsyncWait(_)
            | Op::FragmentStore(..)
            | Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => Effect::Store { together: true },
            Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..)
            | Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..)
            | Op::FragmentExtract(..)
            | Op::FragmentCompose(..) => Effect::Collective,
            Op::If(..) | Op::For { .. } => Effect::Regions,
        }
    }
    /// Does the instruction only compute its results from its operands?
    pub fn is_pure(&self) -> bool {
        self.effect() == Effect::Pure
    }
    /// Must a whole workgroup reach the instruction, or none of it?
    pub fn is_together(&self) -> bool {
        matches!(self.effect(), Effect::Collective | Effect::Store { together: true })
    }
    /// Does the instruction change memory, or wait for others, itself or in its regions?
    pub fn has_effect(&self) -> bool {
        match self.effect() {
            Effect::Store { .. } => true,
            Effect::Pure | Effect::Load | Effect::Collective => false,
            Effect::Regions => self.regions().into_iter().any(|r| r.insts.iter().any(|i| i.op.has_effect())),
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
