//! Handles of values: the expressions that kernels are written with.

use super::Builder;
use crate::arith;
use crate::ir::{Binary, Compare, Op, Scalar, Type, Unary, Value};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

/// A value of the kernel that is being written. Copies are the same value.
#[derive(Clone, Copy, Debug)]
pub struct Val<'k> {
    pub(crate) k: &'k Builder,
    pub(crate) id: Value,
}

impl<'k> Val<'k> {
    /// The type.
    pub fn ty(self) -> Type {
        self.k.ty(self.id)
    }
    /// The scalar type.
    ///
    /// # Panics
    /// For a fragment.
    pub fn scalar(self) -> Scalar {
        self.k.scalar(self.id)
    }
    /// Is it the same value of the kernel, not only an equal one?
    pub fn is(self, o: Val<'k>) -> bool {
        self.id == o.id
    }
    /// The builder of this value.
    pub fn builder(self) -> &'k Builder {
        self.k
    }
    /// A whole number of this value's scalar type.
    #[inline(never)]
    pub fn like(self, v: i64) -> Val<'k> {
        self.k.int(self.scalar(), v)
    }
    /// An operation on this value.
    pub fn unary(self, op: Unary) -> Val<'k> {
        self.k.unary(op, self)
    }
    /// An operation with another value.
    pub fn binary(self, op: Binary, o: Val<'k>) -> Val<'k> {
        self.k.binary(op, self, o)
    }
    /// A comparison with another value.
    pub fn compare(self, op: Compare, o: Val<'k>) -> Val<'k> {
        self.k.compare(op, self, o)
    }
    /// `self == o`
    #[inline(never)]
    pub fn eq(self, o: Val<'k>) -> Val<'k> {
        self.compare(Compare::Eq, o)
    }
    /// `self < o`
    #[inline(never)]
    pub fn lt(self, o: Val<'k>) -> Val<'k> {
        self.compare(Compare::Lt, o)
    }
    /// The smaller.
    #[inline(never)]
    pub fn min(self, o: Val<'k>) -> Val<'k> {
        self.binary(Binary::Min, o)
    }
    /// The larger.
    #[inline(never)]
    pub fn max(self, o: Val<'k>) -> Val<'k> {
        self.binary(Binary::Max, o)
    }
    /// `self * b + c`, rounded once.
    pub fn fma(self, b: Val<'k>, c: Val<'k>) -> Val<'k> {
        self.k.fma(self, b, c)
    }
    /// `a` where this (bool) is true, else `b`.
    pub fn select(self, a: Val<'k>, b: Val<'k>) -> Val<'k> {
        self.k.select(self, a, b)
    }
    /// As another scalar type; itself if it is of that type.
    #[inline(never)]
    pub fn to(self, s: Scalar) -> Val<'k> {
        if self.scalar() == s { self } else { self.k.push(Op::Convert(s, self.id), self.ty().of(s)) }
    }
    /// A float as a signed integer, if it fits.
    pub fn fptosi(self) -> Val<'k> {
        let (s, _) = arith::whole(self.scalar()).expect("only floats become whole numbers");
        self.k.push(Op::FpToSi(self.id), self.ty().of(s))
    }
    /// The same bits as another type.
    pub fn bitcast(self, s: Scalar) -> Val<'k> {
        assert!(arith::bits(self.scalar(), s), "the bits of a {} as {s}", self.ty());
        self.k.push(Op::Bitcast(s, self.id), self.ty().of(s))
    }
    /// One number of a vector; a scalar is its own first.
    pub fn extract(self, i: u8) -> Val<'k> {
        match self.ty() {
            Type::Vector(_, 1) => self,
            t => self.k.push(Op::Extract(self.id, i), t.scalar().expect("a vector").into()),
        }
    }
    /// Repeated to a vector of this width.
    pub fn splat(self, width: u8) -> Val<'k> {
        self.k.widen(self, Type::Vector(self.scalar(), width))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'k> $trait for Val<'k> {
            type Output = Val<'k>;
            #[inline(never)]
            fn $method(self, o: Val<'k>) -> Val<'k> {
                self.k.binary(Binary::$op, self, o)
            }
        }
        impl<'k> $trait<i64> for Val<'k> {
            type Output = Val<'k>;
            #[inline(never)]
            fn $method(self, o: i64) -> Val<'k> {
                self.k.binary(Binary::$op, self, self.like(o))
            }
        }
    )*};
}
operators! {
    Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; Rem rem Rem;
    BitAnd bitand And; BitOr bitor Or; BitXor bitxor Xor; Shl shl Shl; Shr shr Shr;
}

impl<'k> Neg for Val<'k> {
    type Output = Val<'k>;
    fn neg(self) -> Val<'k> {
        self.unary(Unary::Neg)
    }
}
impl<'k> Not for Val<'k> {
    type Output = Val<'k>;
    fn not(self) -> Val<'k> {
        self.unary(Unary::Not)
    }
}
