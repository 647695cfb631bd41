//! Floats of formulas, their bit patterns, and the results of comparisons.

use super::fmod;
use super::term::Term;
use crate::ir::{Binary, Compare, Constant, Scalar, Unary};
use elinvar_ops::lane::{Lane, LaneInt, Mask};
use elinvar_ops::math;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// How wide a float is.
pub trait Width: Copy + Debug + 'static + Elementary {
    /// The float.
    const FLOAT: Scalar;
    /// The signed integer of that width.
    const INT: Scalar;
    /// The unsigned integer of that width.
    const UNSIGNED: Scalar;
    /// Bits.
    const BITS: u32;
}

/// f32 and i32.
#[derive(Clone, Copy, Debug)]
pub struct W32;
/// f64 and i64.
#[derive(Clone, Copy, Debug)]
pub struct W64;

impl Width for W32 {
    const FLOAT: Scalar = Scalar::F32;
    const INT: Scalar = Scalar::I32;
    const UNSIGNED: Scalar = Scalar::U32;
    const BITS: u32 = 32;
}
impl Width for W64 {
    const FLOAT: Scalar = Scalar::F64;
    const INT: Scalar = Scalar::I64;
    const UNSIGNED: Scalar = Scalar::U64;
    const BITS: u32 = 64;
}

/// A float of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Float<'k, W>(pub Term<'k>, PhantomData<W>);
/// The integer as wide as a float: bits, or a whole number.
#[derive(Clone, Copy, Debug)]
pub struct Whole<'k, W>(pub Term<'k>, PhantomData<W>);
/// What a comparison gives.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'k>(pub Term<'k>);

impl<'k, W> Float<'k, W> {
    /// A term as a float; it must be one of this width.
    pub fn new(t: Term<'k>) -> Self {
        Float(t, PhantomData)
    }
}
impl<'k, W> Whole<'k, W> {
    fn new(t: Term<'k>) -> Self {
        Whole(t, PhantomData)
    }
}

impl Mask for Truth<'_> {
    fn all_lanes(v: bool) -> Self {
        Truth(Term::Number(v.into()))
    }
}
macro_rules! truth {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl $trait for Truth<'_> {
            type Output = Self;
            fn $method(self, o: Self) -> Self {
                Truth(self.0.binary(Binary::$op, o.0))
            }
        }
    )*};
}
truth! { BitAnd bitand And; BitOr bitor Or; BitXor bitxor Xor; }
impl Not for Truth<'_> {
    type Output = Self;
    fn not(self) -> Self {
        Truth(self.0.unary(Unary::Not))
    }
}

macro_rules! operators {
    ($type:ident: $($trait:ident $method:ident $op:ident;)*) => {$(
        impl<W: Width> $trait for $type<'_, W> {
            type Output = Self;
            fn $method(self, o: Self) -> Self {
                $type::new(self.0.binary(Binary::$op, o.0))
            }
        }
    )*};
}
operators! { Float: Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; }
operators! { Whole: Add add Add; Sub sub Sub; Mul mul Mul; BitAnd bitand And; BitOr bitor Or; BitXor bitxor Xor; }

impl<W: Width> Neg for Float<'_, W> {
    type Output = Self;
    fn neg(self) -> Self {
        Float::new(self.0.unary(Unary::Neg))
    }
}
impl<W: Width> Not for Whole<'_, W> {
    type Output = Self;
    fn not(self) -> Self {
        Whole::new(self.0.unary(Unary::Not))
    }
}

impl<'k, W: Width> LaneInt<Truth<'k>> for Whole<'k, W> {
    fn lit(v: i64) -> Self {
        Whole::new(Term::Number(Constant::int(W::INT, v)))
    }
    fn shl(self, n: u32) -> Self {
        self.shl_by(Self::lit(i64::from(n)))
    }
    fn shr(self, n: u32) -> Self {
        Whole::new(self.0.binary(Binary::Shr, Self::lit(i64::from(n)).0))
    }
    fn shr_logical(self, n: u32) -> Self {
        self.shr_logical_by(Self::lit(i64::from(n)))
    }
    fn shl_by(self, n: Self) -> Self {
        Whole::new(self.0.binary(Binary::Shl, n.0))
    }
    fn shr_logical_by(self, n: Self) -> Self {
        self.unsigned(Binary::Shr, n)
    }
    fn mul_high_unsigned(self, o: Self) -> Self {
        self.unsigned(Binary::MulHigh, o)
    }
    fn eq(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Eq, o.0))
    }
    fn lt(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Lt, o.0))
    }
    fn select(mask: Truth<'k>, a: Self, b: Self) -> Self {
        Whole::new(Term::select(mask.0, a.0, b.0))
    }
}

/// The elementary functions of each width, compiled here and nowhere else. They are the same calls
/// in every formula; inlined, the logarithm, sine and cosine that normal numbers need were 100 KB
/// of a program.
macro_rules! elementary {
    ($($function:ident($($x:ident)*);)*) => {
        /// The elementary functions of a width.
        pub trait Elementary: Sized {
            $(
                #[doc = concat!("See `elinvar_ops::math::", stringify!($function), "`.")]
                fn $function<'k>($($x: Float<'k, Self>),*) -> Float<'k, Self>;
            )*
        }
        elementary! { @ W32 $($function($($x)*);)* }
        elementary! { @ W64 $($function($($x)*);)* }

        /// Those of [`Lane`], for its implementation.
        macro_rules! called {
            () => {
                $(elementary! { # $function($($x)*) })*
            };
        }
    };
    (@ $width:ident $($function:ident($($x:ident)*);)*) => {
        impl Elementary for $width {
            $(
                #[inline(never)]
                fn $function<'k>($($x: Float<'k, Self>),*) -> Float<'k, Self> {
                    math::$function($($x),*)
                }
            )*
        }
    };
    (# $function:ident($x:ident)) => {
        fn $function(self) -> Self {
            W::$function(self)
        }
    };
    (# $function:ident($x:ident $y:ident)) => {
        fn $function(self, other: Self) -> Self {
            W::$function(self, other)
        }
    };
}
elementary! {
    exp(x); exp2(x); expm1(x); log(x); log2(x); log10(x); log1p(x); sin(x); cos(x); tan(x); asin(x); acos(x); atan(x); sinh(x);
    cosh(x); tanh(x); erf(x); phi(x); sigmoid(x); rsqrt(x);
    asinh(x); acosh(x); atanh(x); erfc(x); erfcx(x); erfinv(x); ndtr(x); log_ndtr(x); ndtri(x); lgamma(x); digamma(x);
    pow(x y); atan2(y x);
}

impl<W: Width> Whole<'_, W> {
    /// An operation on the bits read as unsigned.
    fn unsigned(self, op: Binary, o: Self) -> Self {
        let (a, b) = (self.0.bitcast(W::UNSIGNED), o.0.bitcast(W::UNSIGNED));
        Whole::new(a.binary(op, b).bitcast(W::INT))
    }
}

impl<'k, W: Width> Lane for Float<'k, W> {
    type Mask = Truth<'k>;
    type Int = Whole<'k, W>;
    const BITS: u32 = W::BITS;

    fn lit(v: f64) -> Self {
        Float::new(Term::Number(Constant::float(W::FLOAT, v)))
    }
    fn fma(self, b: Self, c: Self) -> Self {
        Float::new(self.0.fma(b.0, c.0))
    }
    fn sqrt(self) -> Self {
        Float::new(self.0.unary(Unary::Sqrt))
    }
    fn abs(self) -> Self {
        Float::new(self.0.unary(Unary::Abs))
    }
    fn min(self, o: Self) -> Self {
        Float::new(self.0.binary(Binary::Min, o.0))
    }
    fn max(self, o: Self) -> Self {
        Float::new(self.0.binary(Binary::Max, o.0))
    }
    fn round(self) -> Self {
        Float::new(self.0.unary(Unary::Round))
    }
    fn floor(self) -> Self {
        Float::new(self.0.unary(Unary::Floor))
    }
    fn ceil(self) -> Self {
        Float::new(self.0.unary(Unary::Ceil))
    }
    fn trunc(self) -> Self {
        Float::new(self.0.unary(Unary::Trunc))
    }
    fn with_sign_bit(self, sign: Self) -> Self {
        Float::new(self.0.binary(Binary::CopySign, sign.0))
    }
    fn lt(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Lt, o.0))
    }
    fn le(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Le, o.0))
    }
    fn eq(self, o: Self) -> Truth<'k> {
        Truth(self.0.compare(Compare::Eq, o.0))
    }
    fn select(mask: Truth<'k>, a: Self, b: Self) -> Self {
        Float::new(Term::select(mask.0, a.0, b.0))
    }
    fn to_bits(self) -> Whole<'k, W> {
        Whole::new(self.0.bitcast(W::INT))
    }
    fn from_bits(bits: Whole<'k, W>) -> Self {
        Float::new(bits.0.bitcast(W::FLOAT))
    }
    fn to_int(self) -> Whole<'k, W> {
        Whole::new(self.0.fptosi())
    }
    fn from_int(v: Whole<'k, W>) -> Self {
        Float::new(v.0.convert(W::FLOAT))
    }
    called!();
    fn fmod(self, o: Self) -> Self {
        match (self.0, o.0) {
            (Term::Number(a), Term::Number(b)) => {
                // In f64 a remainder of f32 is exact, and it is an f32.
                Float::lit(a.to_f64() % b.to_f64())
            }
            (a, b) => Float::new(a.apart(b, &fmod::fmod).expect("one of them is a value")),
        }
    }
}
