//! Index analysis, for vector accesses and address sharing.
//!
//! Which power of two divides an index: accesses to several elements at once, and `ldmatrix`, need
//! indices that are multiples. And of which values it is a sum: a constant part becomes an offset
//! of the access, and a common part is computed once.

use crate::ir::{Binary, Kernel, Op, Region, Type, Unary, Value};
use std::collections::BTreeMap;

/// Larger powers are not told apart.
const MAX_POWER: u64 = 1 << 20;

/// Where a value comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Op(&'a Op),
    /// The index of a loop: its start and its step.
    Index(Value, Value),
    /// A loop or a branch carries it.
    Carried,
}

/// Values of an index's sum, at most: values that are made of others twice would be looked into
/// without end.
const MAX_TERMS: usize = 16;

/// Where all values of a kernel come from.
pub struct IndexAnalysis<'a> {
    sources: Vec<Source<'a>>,
    types: &'a [Type],
}

impl<'a> IndexAnalysis<'a> {
    pub fn of(k: &'a Kernel) -> IndexAnalysis<'a> {
        let mut all = IndexAnalysis { sources: vec![Source::Carried; k.values.len()], types: &k.values };
        all.region(&k.body);
        all
    }
    fn region(&mut self, r: &'a Region) {
        for inst in &r.insts {
            if let ([v], []) = (&inst.results[..], &inst.op.regions()[..]) {
                self.sources[v.0 as usize] = Source::Op(&inst.op);
            }
            if let Op::For { start, step, body, .. } = &inst.op {
                self.sources[body.args[0].0 as usize] = Source::Index(*start, *step);
            }
            inst.op.regions().iter().for_each(|r| self.region(r));
        }
    }

    /// The largest power of two that surely divides it.
    pub fn power(&self, v: Value) -> u64 {
        let power = match self.sources[v.0 as usize] {
            Source::Index(start, step) => self.power(start).min(self.power(step)),
            Source::Carried => 1,
            Source::Op(op) => match op {
                // 0 is a multiple of everything.
                Op::Const(c) if c.scalar.is_int() => match c.bits {
                    0 => MAX_POWER,
                    bits => 1 << bits.trailing_zeros(),
                },
                Op::Binary(Binary::Add | Binary::Sub | Binary::Or | Binary::Xor, a, b) => {
                    self.power(*a).min(self.power(*b))
                }
                Op::Binary(Binary::Mul, a, b) => self.power(*a) * self.power(*b),
                Op::Binary(Binary::And, a, b) => self.power(*a).max(self.power(*b)),
                Op::Binary(Binary::Min | Binary::Max, a, b) => self.power(*a).min(self.power(*b)),
                Op::Binary(Binary::Shl, a, b) => match self.sources[b.0 as usize] {
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
        power.min(MAX_POWER)
    }

    /// An index as a sum, modulo 2^32: values, in the order in which they are made, with what each
    /// is multiplied by; and a number.
    ///
    /// So what stays the same while a loop goes on comes first, and what is different for each
    /// access last.
    pub fn sum(&self, v: Value) -> (Vec<(Value, u32)>, u32) {
        let (mut terms, mut number, mut left) = (BTreeMap::new(), 0, MAX_TERMS);
        if !self.gather(v, 1, &mut left, &mut terms, &mut number) {
            return (vec![(v, 1)], 0);
        }
        (terms.into_iter().filter(|&(_, factor)| factor != 0).collect(), number)
    }
    /// Adds `factor` times a value; `false` if it has too many parts.
    fn gather(
        &self,
        v: Value,
        factor: u32,
        left: &mut usize,
        terms: &mut BTreeMap<Value, u32>,
        number: &mut u32,
    ) -> bool {
        let mut part = |v: Value, factor: u32| self.gather(v, factor, left, terms, number);
        let constant = |v: Value| match self.sources[v.0 as usize] {
            Source::Op(Op::Const(c)) if c.scalar.is_int() => Some(c.bits as u32),
            Source::Op(_) | Source::Index(..) | Source::Carried => None,
        };
        let Source::Op(op) = self.sources[v.0 as usize] else { return leaf(v, factor, left, terms) };
        match op {
            Op::Const(c) if c.scalar.is_int() => {
                *number = number.wrapping_add((c.bits as u32).wrapping_mul(factor));
                true
            }
            Op::Binary(Binary::Add, a, b) => part(*a, factor) && part(*b, factor),
            Op::Binary(Binary::Sub, a, b) => part(*a, factor) && part(*b, factor.wrapping_neg()),
            Op::Binary(Binary::Mul, a, b) => match (constant(*a), constant(*b)) {
                (_, Some(c)) => part(*a, factor.wrapping_mul(c)),
                (Some(c), None) => part(*b, factor.wrapping_mul(c)),
                (None, None) => leaf(v, factor, left, terms),
            },
            Op::Binary(Binary::Shl, a, b) => match constant(*b) {
                Some(c) if c < 32 => part(*a, factor.wrapping_shl(c)),
                Some(_) | None => leaf(v, factor, left, terms),
            },
            Op::Unary(Unary::Neg, a) => part(*a, factor.wrapping_neg()),
            // Widening and wrapping keep the low bits.
            Op::Convert(to, a)
                if to.is_int() && self.types[a.0 as usize].scalar().is_some_and(|s| s.is_int()) =>
            {
                part(*a, factor)
            }
            _ => leaf(v, factor, left, terms),
        }
    }
}

/// A value that is looked into no further.
fn leaf(v: Value, factor: u32, left: &mut usize, terms: &mut BTreeMap<Value, u32>) -> bool {
    let Some(less) = left.checked_sub(1) else { return false };
    *left = less;
    let sum = terms.entry(v).or_insert(0);
    *sum = sum.wrapping_add(factor);
    true
}
