//! Terms of formulas: a value of a kernel, or a constant that has met none yet.

use crate::arith;
use crate::builder::{Builder, Val};
use crate::ir::{Binary, Compare, Constant, Scalar, Unary};

/// A value of a kernel, or a constant.
#[derive(Clone, Copy, Debug)]
pub enum Term<'k> {
    /// A constant.
    Number(Constant),
    /// A value.
    Value(Val<'k>),
}

impl<'k> Term<'k> {
    /// As a value of this kernel.
    pub fn value(self, k: &'k Builder) -> Val<'k> {
        match self {
            Term::Number(c) => k.constant(c),
            Term::Value(v) => v,
        }
    }
    fn builder(self) -> Option<&'k Builder> {
        match self {
            Term::Number(_) => None,
            Term::Value(v) => Some(v.builder()),
        }
    }
    /// The constant of these bits.
    fn number(scalar: Scalar, bits: u64) -> Self {
        Term::Number(Constant { scalar, bits })
    }

    pub(super) fn unary(self, op: Unary) -> Self {
        match self {
            Term::Number(c) => {
                let f = arith::unary(op, c.scalar).expect("formulas are typed");
                Term::number(c.scalar, f(c.bits))
            }
            Term::Value(v) => Term::Value(v.unary(op)),
        }
    }
    pub(super) fn binary(self, op: Binary, o: Self) -> Self {
        match (self, o) {
            (Term::Number(a), Term::Number(b)) => {
                let f = arith::binary(op, a.scalar).expect("formulas are typed");
                Term::number(a.scalar, f(a.bits, b.bits))
            }
            (Term::Value(v), o) => Term::Value(v.binary(op, o.value(v.builder()))),
            (a, Term::Value(v)) => Term::Value(a.value(v.builder()).binary(op, v)),
        }
    }
    pub(super) fn compare(self, op: Compare, o: Self) -> Self {
        match (self, o) {
            (Term::Number(a), Term::Number(b)) => {
                Term::number(Scalar::Bool, arith::compare(op, a.scalar)(a.bits, b.bits))
            }
            (Term::Value(v), o) => Term::Value(v.compare(op, o.value(v.builder()))),
            (a, Term::Value(v)) => Term::Value(a.value(v.builder()).compare(op, v)),
        }
    }
    pub(super) fn fma(self, b: Self, c: Self) -> Self {
        if let (Term::Number(x), Term::Number(y), Term::Number(z)) = (self, b, c) {
            let f = arith::fma(x.scalar, true).expect("formulas are typed");
            return Term::number(x.scalar, f(x.bits, y.bits, z.bits));
        }
        let k = [self, b, c].into_iter().find_map(Term::builder).expect("one is a value");
        Term::Value(self.value(k).fma(b.value(k), c.value(k)))
    }
    pub(super) fn select(mask: Self, a: Self, b: Self) -> Self {
        match mask {
            Term::Number(c) => {
                if c.bits != 0 {
                    a
                } else {
                    b
                }
            }
            Term::Value(m) => {
                let k = m.builder();
                Term::Value(m.select(a.value(k), b.value(k)))
            }
        }
    }
    pub(super) fn convert(self, to: Scalar) -> Self {
        match self {
            Term::Number(c) => Term::number(to, arith::convert(c.scalar, to)(c.bits)),
            Term::Value(v) => Term::Value(v.to(to)),
        }
    }
    pub(super) fn bitcast(self, to: Scalar) -> Self {
        match self {
            Term::Number(c) => Term::number(to, c.bits),
            Term::Value(v) => Term::Value(v.bitcast(to)),
        }
    }
    pub(super) fn fptosi(self) -> Self {
        match self {
            Term::Number(c) => {
                let (to, f) = arith::whole(c.scalar).expect("only floats become whole numbers");
                Term::number(to, f(c.bits))
            }
            Term::Value(v) => Term::Value(v.fptosi()),
        }
    }
    /// Each number of a pair of vectors by itself, where there is no vector form of what is done.
    pub(super) fn apart(self, o: Self, f: &dyn Fn(Val<'k>, Val<'k>) -> Val<'k>) -> Option<Self> {
        let k = self.builder().or(o.builder())?;
        let (a, b) = (self.value(k), o.value(k));
        let w = a.ty().width().max(b.ty().width());
        if w == 1 {
            return Some(Term::Value(f(a, b)));
        }
        let all: Vec<Val<'k>> = (0..w).map(|i| f(a.extract(i), b.extract(i))).collect();
        Some(Term::Value(k.compose(&all)))
    }
}
