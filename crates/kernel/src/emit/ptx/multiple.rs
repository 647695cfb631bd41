//! What power of two divides an index, as far as the instructions that make it tell: accesses to several elements at once, and
//! loads of matrices, ask for indices that are multiples.

use crate::ir::{Binary, Kernel, Op, Region, Unary, Value};

/// Larger powers are not told apart.
const MOST: u64 = 1 << 20;

/// Where a value comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Op(&'a Op),
    /// The index of a loop: its start and its step.
    Index(Value, Value),
    /// A loop or a branch carries it.
    Carried,
}

/// Where all values of a kernel come from.
pub struct Multiples<'a>(Vec<Source<'a>>);

impl<'a> Multiples<'a> {
    pub fn of(k: &'a Kernel) -> Multiples<'a> {
        let mut all = Multiples(vec![Source::Carried; k.values.len()]);
        all.region(&k.body);
        all
    }
    fn region(&mut self, r: &'a Region) {
        for inst in &r.insts {
            if let ([v], []) = (&inst.results[..], &inst.op.regions()[..]) {
                self.0[v.0 as usize] = Source::Op(&inst.op);
            }
            if let Op::For { start, step, body, .. } = &inst.op {
                self.0[body.args[0].0 as usize] = Source::Index(*start, *step);
            }
            inst.op.regions().iter().for_each(|r| self.region(r));
        }
    }

    /// The largest power of two that surely divides it.
    pub fn power(&self, v: Value) -> u64 {
        let power = match self.0[v.0 as usize] {
            Source::Index(start, step) => self.power(start).min(self.power(step)),
            Source::Carried => 1,
            Source::Op(op) => match op {
                // 0 is a multiple of everything.
                Op::Const(c) if c.scalar.is_int() => match c.bits {
                    0 => MOST,
                    bits => 1 << bits.trailing_zeros(),
                },
                Op::Binary(Binary::Add | Binary::Sub | Binary::Or | Binary::Xor, a, b) => {
                    self.power(*a).min(self.power(*b))
                }
                Op::Binary(Binary::Mul, a, b) => self.power(*a) * self.power(*b),
                Op::Binary(Binary::And, a, b) => self.power(*a).max(self.power(*b)),
                Op::Binary(Binary::Min | Binary::Max, a, b) => self.power(*a).min(self.power(*b)),
                Op::Binary(Binary::Shl, a, b) => match self.0[b.0 as usize] {
                    Source::Op(Op::Const(c)) if c.bits < 20 => self.power(*a) << c.bits,
                    _ => self.power(*a),
                },
                Op::Unary(Unary::Neg, a) => self.power(*a),
                // Wrapping, and widening, keep the low bits.
                Op::Convert(to, a) if to.is_int() => self.power(*a),
                Op::Select(_, a, b) => self.power(*a).min(self.power(*b)),
                _ => 1,
            },
        };
        power.min(MOST)
    }
}
