//! Interpreter: what an instruction computes, for all invocations that reach it.

use super::{Checked, Machine};
use crate::arith::{self, BinaryFn, Flushes, UnaryFn};
use crate::ir::{Binary, Builtin, Inst, Op, Scalar, Unary, Value};

/// Runs the body for each number of some invocations, `$w` each. Plain loops: tests run the
/// interpreter as it is compiled without optimisation, where adapters of iterators took most of the
/// time.
macro_rules! each_number {
    ($lanes:expr, $w:expr, $i:ident => $body:block) => {
        for &lane in $lanes {
            let mut $i = lane * $w;
            let end = $i + $w;
            while $i < end {
                $body
                $i += 1;
            }
        }
    };
}

impl Machine<'_> {
    fn each1(&mut self, r: Value, a: Value, lanes: &[usize], flushed: bool, f: UnaryFn) {
        let (mut out, w) = (self.take_buffer(r), self.width(r));
        let x = self.slot(a);
        each_number!(lanes, w, i => {
            out[i] = if flushed { f(arith::flush(x[i])) } else { f(x[i]) };
        });
        self.put(r, out);
    }
    fn each2(&mut self, r: Value, [a, b]: [Value; 2], lanes: &[usize], flushed: bool, f: BinaryFn) {
        let (mut out, w) = (self.take_buffer(r), self.width(r));
        let (x, y) = (self.slot(a), self.slot(b));
        each_number!(lanes, w, i => {
            out[i] = if flushed { f(arith::flush(x[i]), arith::flush(y[i])) } else { f(x[i], y[i]) };
        });
        self.put(r, out);
    }
    fn change(&mut self, r: Value, lanes: &[usize], f: UnaryFn) {
        let w = self.width(r);
        each_number!(lanes, w, i => {
            let x = &mut self.slots[r.0 as usize][i];
            *x = f(*x);
        });
    }
    fn flush_result(&mut self, r: Value, lanes: &[usize]) {
        self.change(r, lanes, arith::flush);
    }
    /// What of this type is flushed.
    fn flushes(&self, s: Scalar) -> Flushes {
        if s == Scalar::F32 { self.lacks.flushes } else { Flushes::default() }
    }

    pub(super) fn inst(&mut self, inst: &Inst, lanes: &[usize]) -> Checked {
        let r = inst.results.first().copied().unwrap_or(Value(u32::MAX));
        let checked = "the verifier has seen to it";
        match &inst.op {
            Op::Const(c) => self.fill(r, lanes, |_| c.bits),
            Op::Param(i) => {
                let bits = self.launch.params[*i as usize].bits;
                self.fill(r, lanes, |_| bits);
            }
            Op::Builtin(b) => {
                let (group, count, [x, y, _]) = (self.group, self.launch.groups, self.kernel.group);
                let lanes_of_subgroup = self.kernel.subgroup.unwrap_or(1);
                let f = |l: usize| {
                    let l = l as u32;
                    u64::from(match *b {
                        Builtin::GroupId(a) => group[usize::from(a)],
                        Builtin::GroupCount(a) => count[usize::from(a)],
                        Builtin::LocalId(0) => l % x,
                        Builtin::LocalId(1) => l / x % y,
                        Builtin::LocalId(_) => l / x / y,
                        Builtin::LocalIndex => l,
                        Builtin::SubgroupLane => l % lanes_of_subgroup,
                        Builtin::SubgroupId => l / lanes_of_subgroup,
                    })
                };
                self.fill(r, lanes, f);
            }
            Op::Unary(op, a) => {
                let s = self.scalar(*a);
                let flushed = self.flushes(s).unary(*op);
                self.each1(r, *a, lanes, flushed, arith::unary(*op, s).expect(checked));
                if *op == Unary::Sqrt && s == Scalar::F32 && self.lacks.precision {
                    self.change(r, lanes, arith::blur);
                }
                if flushed {
                    self.flush_result(r, lanes);
                }
            }
            Op::Binary(op, a, b) => {
                let s = self.scalar(*a);
                let flushed = self.flushes(s).binary(*op);
                self.each2(r, [*a, *b], lanes, flushed, arith::binary(*op, s).expect(checked));
                if *op == Binary::Div && s == Scalar::F32 && self.lacks.precision {
                    self.change(r, lanes, arith::blur);
                }
                if flushed {
                    self.flush_result(r, lanes);
                }
            }
            Op::Compare(op, a, b) => {
                let s = self.scalar(*a);
                self.each2(r, [*a, *b], lanes, self.flushes(s).comparisons, arith::compare(*op, s));
            }
            Op::Fma(a, b, c) => {
                let s = self.scalar(*a);
                let flushed = self.flushes(s).fma;
                let f = arith::fma(s, !self.lacks.fused).expect(checked);
                let (mut out, w) = (self.take_buffer(r), self.width(r));
                let (x, y, z) = (self.slot(*a), self.slot(*b), self.slot(*c));
                each_number!(lanes, w, i => {
                    out[i] = if flushed {
                        arith::flush(f(arith::flush(x[i]), arith::flush(y[i]), arith::flush(z[i])))
                    } else {
                        f(x[i], y[i], z[i])
                    };
                });
                self.put(r, out);
            }
            Op::Select(c, a, b) => {
                let (mut out, w) = (self.take_buffer(r), self.width(r));
                let (c, x, y) = (self.slot(*c), self.slot(*a), self.slot(*b));
                each_number!(lanes, w, i => {
                    out[i] = if c[i] != 0 { x[i] } else { y[i] };
                });
                self.put(r, out);
            }
            Op::Convert(to, a) => {
                let s = self.scalar(*a);
                // The truth of a number is a comparison.
                let from = self.flushes(s);
                let flushed = if *to == Scalar::Bool { from.comparisons } else { from.conversions };
                self.each1(r, *a, lanes, flushed, arith::convert(s, *to));
                if self.flushes(*to).conversions {
                    self.flush_result(r, lanes);
                }
            }
            Op::FpToSi(a) => {
                let s = self.scalar(*a);
                self.each1(r, *a, lanes, false, arith::whole(s).expect(checked).1);
            }
            Op::Bitcast(_, a) => self.each1(r, *a, lanes, false, |x| x),
            Op::Splat(w, a) => {
                let (mut out, w) = (self.take_buffer(r), usize::from(*w));
                let x = self.slot(*a);
                lanes.iter().for_each(|&l| out[l * w..(l + 1) * w].fill(x[l]));
                self.put(r, out);
            }
            Op::Compose(all) => {
                let mut out = self.take_buffer(r);
                for (i, v) in all.iter().enumerate() {
                    let x = self.slot(*v);
                    lanes.iter().for_each(|&l| out[l * all.len() + i] = x[l]);
                }
                self.put(r, out);
            }
            Op::Extract(a, i) => {
                let (mut out, w) = (self.take_buffer(r), self.width(*a));
                let x = self.slot(*a);
                lanes.iter().for_each(|&l| out[l] = x[l * w + usize::from(*i)]);
                self.put(r, out);
            }
            Op::Load(..) | Op::Store(..) | Op::Atomic(..) => self.access(inst, r, lanes)?,
            Op::CpAsync { .. } => self.begin_cp_async(&inst.op, lanes)?,
            Op::Barrier
            | Op::CpAsyncCommit
            | Op::CpAsyncWait(_)
            | Op::Shuffle(..)
            | Op::Broadcast(..)
            | Op::Reduce(..)
            | Op::FragmentLoad(..)
            | Op::FragmentFill(..)
            | Op::FragmentMulAdd(..)
            | Op::FragmentExtract(..)
            | Op::FragmentCompose(..)
            | Op::FragmentStore(..) => self.collective(&inst.op, r, lanes)?,
            Op::TmaLoad { .. }
            | Op::MbarrierWait(..)
            | Op::WgmmaSs { .. }
            | Op::WgmmaRs { .. }
            | Op::WgmmaWait(_) => {
                self.all_here(lanes)?;
                self.tma(&inst.op, &inst.results)?;
            }
            Op::If(..) | Op::For { .. } => unreachable!("regions are run by `region`"),
        }
        Ok(())
    }

    fn fill(&mut self, r: Value, lanes: &[usize], f: impl Fn(usize) -> u64) {
        let mut out = self.take_buffer(r);
        lanes.iter().for_each(|&l| out[l] = f(l));
        self.put(r, out);
    }
}
