//! Integers and truth values of formulas.

use super::float::Truth;
use super::term::Term;
use crate::ir::{Binary, Compare, Constant, Scalar, Unary};
use elinvar_ops::int::Int;
use std::fmt::Debug;
use std::marker::PhantomData;

/// Which integer of tensors.
pub trait IntKind: Copy + Debug + 'static {
    /// The type in which it is computed.
    const SCALAR: Scalar;
    /// The least and the greatest number.
    const RANGE: (i64, i64);
    /// Bits that count; the others are 0.
    const BITS: u32;
}

macro_rules! kinds {
    ($($name:ident, $scalar:ident, $least:expr, $greatest:expr, $bits:literal, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl IntKind for $name {
            const SCALAR: Scalar = Scalar::$scalar;
            const RANGE: (i64, i64) = ($least, $greatest);
            const BITS: u32 = $bits;
        }
    )*};
}
kinds! {
    KindI64, I64, i64::MIN, i64::MAX, 64, "i64";
    KindI32, I32, i32::MIN as i64, i32::MAX as i64, 32, "i32";
    KindU8, U32, 0, 255, 8, "u8, in the low bits of a u32";
    KindBool, Bool, 0, 1, 1, "bool";
}

/// An integer of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Integer<'k, K>(pub Term<'k>, PhantomData<K>);

impl<'k, K: IntKind> Integer<'k, K> {
    /// A term as an integer; it must be of this kind.
    pub fn new(t: Term<'k>) -> Self {
        Integer(t, PhantomData)
    }
    fn is_bool() -> bool {
        K::BITS == 1
    }
    /// A result, cut to the width.
    fn cut(t: Term<'k>) -> Self {
        if K::BITS == 8 {
            let mask = Term::Number(Constant::int(K::SCALAR, 0xff));
            return Self::new(t.binary(Binary::And, mask));
        }
        Self::new(t)
    }
    fn two(self, op: Binary, o: Self) -> Term<'k> {
        self.0.binary(op, o.0)
    }
    /// Is a shift by this within the width?
    fn shifts(self) -> Truth<'k> {
        // As unsigned, so that a negative one is not.
        let unsigned = match K::SCALAR {
            Scalar::I64 => Scalar::U64,
            Scalar::I32 => Scalar::U32,
            s @ (Scalar::U32 | Scalar::U64 | Scalar::Bool | Scalar::F32 | Scalar::F64) => s,
        };
        let bound = Term::Number(Constant::int(unsigned, i64::from(K::BITS)));
        let n = if unsigned == K::SCALAR { self.0 } else { self.0.bitcast(unsigned) };
        Truth(n.compare(Compare::Lt, bound))
    }
}

impl<'k, K: IntKind> Int for Integer<'k, K> {
    type Mask = Truth<'k>;

    fn lit(v: i64) -> Self {
        let c = Constant::int(K::SCALAR, v);
        Self::new(Term::Number(if K::BITS == 8 { Constant { bits: c.bits & 0xff, ..c } } else { c }))
    }
    fn lt(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Lt, o.0))
    }
    fn eq(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Eq, o.0))
    }
    fn select(mask: Truth<'k>, a: Self, b: Self) -> Self {
        Self::new(Term::select(mask.0, a.0, b.0))
    }
    fn within(self, min: Option<i64>, max: Option<i64>) -> Self {
        // Bounds are known here, so those outside of the type are resolved here.
        let (least, greatest) = K::RANGE;
        let above = match min {
            Some(m) if m > greatest => {
                // All numbers are below the lower bound.
                return Self::lit(max.map_or(m, |max| Ord::min(m, max)));
            }
            Some(m) if m > least => self.max(Self::lit(m)),
            Some(_) | None => self,
        };
        match max {
            Some(m) if m < least => Self::lit(m),
            Some(m) if m < greatest => above.min(Self::lit(m)),
            Some(_) | None => above,
        }
    }
    fn power(self, n: Self) -> Self {
        let k = [self.0, n.0].into_iter().find_map(|t| match t {
            Term::Value(v) => Some(v.builder()),
            Term::Number(_) => None,
        });
        let Some(k) = k else { unreachable!("a power of two constants is no formula") };
        let zero = Self::lit(0);
        let one = Self::lit(1);
        if Self::is_bool() {
            return Self::select(n.is_true(), self, one);
        }
        // A turn per bit of the exponent. With vectors, all numbers take the same turns.
        let width = |t: Term<'k>| t.value(k).ty().width();
        let w = Ord::max(width(self.0), width(n.0));
        let spread = |t: Term<'k>| t.value(k).splat(w);
        let turns = k.for_(
            k.u32(0),
            k.u32(K::BITS),
            k.u32(1),
            &[spread(n.0), spread(self.0), spread(one.0)],
            |_, c| {
                let of = |i: usize| Self::new(Term::Value(c[i]));
                let (left, square, product) = (of(0), of(1), of(2));
                let odd = left.and(one).is_true();
                let next = [
                    Self::new(left.two(Binary::Shr, one)),
                    square.mul(square),
                    Self::select(odd, product.mul(square), product),
                ];
                next.map(|x| x.0.value(k)).to_vec()
            },
        );
        let whole = Self::new(Term::Value(turns[2]));
        if K::RANGE.0 == 0 {
            return whole;
        }
        // 1 / x^-n, cut towards zero: only 1 and -1 have one.
        let minus_one = Self::lit(-1);
        let odd = n.and(one).is_true();
        let is_one = self.eq(one) | (self.eq(minus_one) & !odd);
        let inverse = Self::select(is_one, one, Self::select(self.eq(minus_one), self, zero));
        Self::select(n.lt(zero), inverse, whole)
    }
    fn add(self, o: Self) -> Self {
        Self::cut(self.two(if Self::is_bool() { Binary::Or } else { Binary::Add }, o))
    }
    fn sub(self, o: Self) -> Self {
        Self::cut(self.two(if Self::is_bool() { Binary::Xor } else { Binary::Sub }, o))
    }
    fn mul(self, o: Self) -> Self {
        Self::cut(self.two(if Self::is_bool() { Binary::And } else { Binary::Mul }, o))
    }
    fn div_trunc(self, o: Self) -> Self {
        Self::new(self.two(if Self::is_bool() { Binary::And } else { Binary::Div }, o))
    }
    fn rem_trunc(self, o: Self) -> Self {
        if Self::is_bool() { Self::lit(0) } else { Self::new(self.two(Binary::Rem, o)) }
    }
    fn min(self, o: Self) -> Self {
        Self::new(self.two(Binary::Min, o))
    }
    fn max(self, o: Self) -> Self {
        Self::new(self.two(Binary::Max, o))
    }
    fn and(self, o: Self) -> Self {
        Self::new(self.two(Binary::And, o))
    }
    fn or(self, o: Self) -> Self {
        Self::new(self.two(Binary::Or, o))
    }
    fn xor(self, o: Self) -> Self {
        Self::new(self.two(Binary::Xor, o))
    }
    fn not(self) -> Self {
        Self::cut(self.0.unary(Unary::Not))
    }
    fn shl(self, n: Self) -> Self {
        if Self::is_bool() {
            return self.and(n.not());
        }
        Self::select(n.shifts(), Self::cut(self.two(Binary::Shl, n)), Self::lit(0))
    }
    fn shr(self, n: Self) -> Self {
        if Self::is_bool() {
            return self.and(n.not());
        }
        let sign = Self::new(self.two(Binary::Shr, Self::lit(i64::from(K::BITS) - 1)));
        let gone = if K::RANGE.0 == 0 { Self::lit(0) } else { sign };
        Self::select(n.shifts(), Self::new(self.two(Binary::Shr, n)), gone)
    }
}
