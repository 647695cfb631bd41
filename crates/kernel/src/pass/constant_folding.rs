//! Constant folding: computes what is known before the kernel runs, by the arithmetic of the
//! interpreter.
//!
//! Also folds branches and selects whose condition is known, removes loops without iterations, and
//! drops integer identities: x + 0, x * 1, x | 0, x << 0. Of vectors only splats are folded.

use super::renumber;
use super::replacement::Replacements;
use crate::arith;
use crate::ir::{Binary, Constant, Inst, Kernel, Op, Region, Scalar, Type, Value};
use rustc_hash::FxHashMap;

/// Folds constants.
pub fn constant_fold(k: &mut Kernel) {
    let types = k.values.clone();
    let mut f = ConstantFolding { types, known: FxHashMap::default(), replacements: Replacements::default() };
    f.region(&mut k.body);
    k.values = f.types;
    renumber(k);
}

struct ConstantFolding {
    types: Vec<Type>,
    /// Values that are one number, or a vector of the same number.
    known: FxHashMap<Value, Constant>,
    replacements: Replacements,
}

/// What became of an instruction.
enum New {
    Stays,
    /// Its result is this number.
    Number(Constant),
    /// Its results are these values.
    Values(Vec<Value>),
}

impl ConstantFolding {
    fn region(&mut self, r: &mut Region) {
        let insts = std::mem::take(&mut r.insts);
        for inst in insts {
            self.inst(inst, &mut r.insts);
        }
        self.replacements.replace_yields(r);
    }

    fn inst(&mut self, mut inst: Inst, out: &mut Vec<Inst>) {
        inst.op.each_operand_mut(&mut |v| self.replacements.replace(v));
        // A branch that is taken for sure is done in its place.
        if let Op::If(c, then, other) = &mut inst.op
            && let Some(c) = self.known.get(c)
        {
            let taken = std::mem::take(if c.bits != 0 { then } else { other });
            for inner in taken.insts {
                self.inst(inner, out);
            }
            for (&v, mut y) in inst.results.iter().zip(taken.yields) {
                self.replacements.replace(&mut y);
                self.stand_for(v, y);
            }
            return;
        }
        for inner in inst.op.regions_mut() {
            self.region(inner);
        }
        match self.one(&inst) {
            New::Stays => {}
            // A splat of a number is as short as it gets.
            New::Number(c) if matches!(inst.op, Op::Splat(..)) => {
                self.known.insert(inst.results[0], c);
            }
            New::Number(c) => {
                let v = inst.results[0];
                self.known.insert(v, c);
                match self.types[v.0 as usize] {
                    Type::Vector(_, 1) => inst.op = Op::Const(c),
                    // A vector stays, as a splat of its number.
                    Type::Vector(_, w) => {
                        let number = Value(self.types.len() as u32);
                        self.types.push(c.scalar.into());
                        self.known.insert(number, c);
                        out.push(Inst { op: Op::Const(c), results: vec![number] });
                        inst.op = Op::Splat(w, number);
                    }
                    Type::Fragment(_) => unreachable!("a fragment is no number"),
                }
            }
            New::Values(all) => {
                for (&v, y) in inst.results.iter().zip(all) {
                    self.stand_for(v, y);
                }
                return;
            }
        }
        out.push(inst);
    }

    fn stand_for(&mut self, old: Value, new: Value) {
        self.replacements.put(old, new);
        if let Some(&c) = self.known.get(&new) {
            self.known.insert(old, c);
        }
    }

    fn number(&self, v: &Value) -> Option<Constant> {
        self.known.get(v).copied()
    }

    fn one(&self, inst: &Inst) -> New {
        self.folded(&inst.op).unwrap_or(New::Stays)
    }

    fn folded(&self, op: &Op) -> Option<New> {
        let of = |scalar: Scalar, bits: u64| Some(New::Number(Constant { scalar, bits }));
        match op {
            Op::Const(c) => Some(New::Number(*c)),
            Op::Unary(op, a) => {
                let a = self.number(a)?;
                of(a.scalar, arith::unary(*op, a.scalar)?(a.bits))
            }
            Op::Binary(op, a, b) => match (self.number(a), self.number(b)) {
                (Some(x), Some(y)) => of(x.scalar, arith::binary(*op, x.scalar)?(x.bits, y.bits)),
                (x, y) => neutral(*op, (*a, x), (*b, y)),
            },
            Op::Compare(op, a, b) => {
                let (x, y) = (self.number(a)?, self.number(b)?);
                of(Scalar::Bool, arith::compare(*op, x.scalar)(x.bits, y.bits))
            }
            Op::Fma(a, b, c) => {
                let (x, y, z) = (self.number(a)?, self.number(b)?, self.number(c)?);
                of(x.scalar, arith::fma(x.scalar, true)?(x.bits, y.bits, z.bits))
            }
            Op::Select(c, a, b) => {
                if a == b {
                    return Some(New::Values(vec![*a]));
                }
                let c = self.number(c)?;
                Some(New::Values(vec![if c.bits != 0 { *a } else { *b }]))
            }
            Op::Convert(to, a) => {
                let a = self.number(a)?;
                of(*to, arith::convert(a.scalar, *to)(a.bits))
            }
            Op::FpToSi(a) => {
                let a = self.number(a)?;
                let (to, f) = arith::whole(a.scalar)?;
                of(to, f(a.bits))
            }
            Op::Bitcast(to, a) => of(*to, self.number(a)?.bits),
            Op::Splat(_, a) | Op::Extract(a, _) => Some(New::Number(self.number(a)?)),
            Op::For { start, end, init, .. } => {
                let (x, y) = (self.number(start)?, self.number(end)?);
                let runs = arith::compare(crate::ir::Compare::Lt, x.scalar)(x.bits, y.bits) != 0;
                (!runs).then(|| New::Values(init.clone()))
            }
            // These depend on the launch, on memory, or on others; and a compose of known numbers
            // is rare.
            Op::Param(_)
            | Op::Builtin(_)
            | Op::Compose(_)
            | Op::Load(..)
            | Op::Store(..)
            | Op::Atomic(..)
            | Op::Barrier
            | Op::CpAsync { .. }
            | Op::CpAsyncCommit
            | Op::CpAsyncWait(_)
            | Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_)
            | Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..)
            | Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..)
            | Op::FragmentExtract(..)
            | Op::FragmentCompose(..)
            | Op::FragmentStore(..)
            | Op::If(..) => None,
        }
    }
}

/// An operation on integers one of whose operands changes nothing.
fn neutral(op: Binary, (a, x): (Value, Option<Constant>), (b, y): (Value, Option<Constant>)) -> Option<New> {
    let is = |c: Option<Constant>, n: u64| c.is_some_and(|c| c.scalar.is_int() && c.bits == n);
    let keep = |v: Value| Some(New::Values(vec![v]));
    match op {
        Binary::Add | Binary::Or | Binary::Xor if is(x, 0) => keep(b),
        Binary::Add | Binary::Sub | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr if is(y, 0) => {
            keep(a)
        }
        Binary::Mul if is(x, 1) => keep(b),
        Binary::Mul | Binary::Div if is(y, 1) => keep(a),
        _ => None,
    }
}
