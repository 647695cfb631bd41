//! `Lane`: the primitive operations from which every elementwise formula is built.
//!
//! A formula is written once, generic over `Lane`, and read in several ways: as plain `f32` or
//! `f64` arithmetic, as vector code, as a [`Dual`](dual::Dual) number (which gives the derivative),
//! as a trace of tensor operations (which gives derivatives of derivatives), and as kernel code for
//! a GPU. So that all readings agree to the last bit, every primitive here has one exact meaning:
//! IEEE 754, round to nearest even, subnormals kept, nothing contracted or reordered.
//!
//! The elementary functions (`exp`, `log`, `sin`, ...) are provided methods: they run the
//! arithmetic in [`crate::math`] over the primitives. A reading overrides them only if it has more
//! than arithmetic to offer: a dual number applies the chain rule.

use crate::math;
use core::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

pub mod dual;
mod fma;
pub mod host;

/// A truth value per lane: the result of a comparison.
pub trait Mask:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    /// The same truth value in every lane.
    fn all_lanes(v: bool) -> Self;
}

/// The integer as wide as the float of a lane: its bit pattern, or a whole number. Arithmetic
/// wraps.
pub trait LaneInt<M: Mask>:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// The constant `v`, truncated to the lane's width.
    fn lit(v: i64) -> Self;
    /// Shift left by `n` in `0..BITS`; zeros are shifted in.
    fn shl(self, n: u32) -> Self;
    /// Shift right by `n` in `0..BITS`; copies of the sign are shifted in.
    fn shr(self, n: u32) -> Self;
    /// Shift right by `n` in `0..BITS`; zeros are shifted in.
    fn shr_logical(self, n: u32) -> Self;
    /// Shift left by an amount per lane; an amount outside `0..BITS` is an error of the formula.
    fn shl_by(self, n: Self) -> Self;
    /// Logical shift right by an amount per lane; an amount outside `0..BITS` is an error of the
    /// formula.
    fn shr_logical_by(self, n: Self) -> Self;
    /// The upper half of the unsigned product, both operands read as unsigned.
    fn mul_high_unsigned(self, other: Self) -> Self;
    /// Equal?
    fn eq(self, other: Self) -> M;
    /// Signed less than?
    fn lt(self, other: Self) -> M;
    /// `a` where the mask is true, else `b`.
    fn select(mask: M, a: Self, b: Self) -> Self;
}

/// A floating-point number in one of several readings. See the module documentation.
///
/// Comparisons with NaN are false (`ne` is true). Arithmetic is correctly rounded.
pub trait Lane:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// The result of a comparison.
    type Mask: Mask;
    /// Bit patterns and whole numbers.
    type Int: LaneInt<Self::Mask>;
    /// Width of the float: 32 or 64. Selects the coefficients of a formula.
    const BITS: u32;

    /// [`Lane::BITS`], for formulas of ops, which may be recorded for any width.
    #[inline(always)]
    fn bits() -> u32 {
        Self::BITS
    }
    /// The constant `v`, rounded to the lane's type.
    fn lit(v: f64) -> Self;
    /// `self * b + c` with one rounding.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Square root, correctly rounded; NaN below zero, -0 at -0.
    fn sqrt(self) -> Self;
    /// The sign bit cleared.
    fn abs(self) -> Self;
    /// The smaller; NaN if either is; -0 is smaller than +0.
    fn min(self, other: Self) -> Self;
    /// The larger; NaN if either is; +0 is larger than -0.
    fn max(self, other: Self) -> Self;
    /// To the nearest whole number, halves to even.
    fn round(self) -> Self;
    /// To the largest whole number not above.
    fn floor(self) -> Self;
    /// To the smallest whole number not below.
    fn ceil(self) -> Self;
    /// To the nearest whole number towards zero.
    fn trunc(self) -> Self;
    /// The magnitude of `self` with the sign bit of `sign`, which must not be NaN unless the result
    /// is NaN too, or is not used: a NaN's sign is not specified.
    fn with_sign_bit(self, sign: Self) -> Self;
    /// The magnitude of `self` with the sign of `sign`. NaN has none, and counts as positive.
    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        self.with_sign_bit(Self::select(sign.is_nan(), Self::lit(0.0), sign))
    }

    /// `self < other`
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`
    fn le(self, other: Self) -> Self::Mask;
    /// `self == other`
    fn eq(self, other: Self) -> Self::Mask;
    /// `self > other`
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// `self >= other`
    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }
    /// `self != other`: true if either is NaN
    #[inline(always)]
    fn ne(self, other: Self) -> Self::Mask {
        !self.eq(other)
    }
    /// Not a number?
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }
    /// `a` where the mask is true, else `b`. Both are computed; the one not taken has no effect.
    fn select(mask: Self::Mask, a: Self, b: Self) -> Self;
    /// `low` where `self` is less, else `self`: NaN stays. Unlike [`Lane::max`], processors have it
    /// as one instruction.
    #[inline(always)]
    fn at_least(self, low: Self) -> Self {
        Self::select(self.lt(low), low, self)
    }
    /// `high` where `self` is greater, else `self`: NaN stays.
    #[inline(always)]
    fn at_most(self, high: Self) -> Self {
        Self::select(self.gt(high), high, self)
    }

    /// The bit pattern.
    fn to_bits(self) -> Self::Int;
    /// The float with this bit pattern.
    fn from_bits(bits: Self::Int) -> Self;
    /// A whole number to the integer of the same value; the caller ensures that it fits.
    fn to_int(self) -> Self::Int;
    /// The integer as a float, rounded to nearest even.
    fn from_int(v: Self::Int) -> Self;

    /// Does [`Lane::scaled`] take any `n`? Then arguments whose exponential underflows are clamped
    /// far below the least subnormal: the scaling instruction takes a slow path for results that
    /// are subnormal or round next to one.
    const SCALES: bool = false;
    /// `self * 2^n` for a whole number `n`, rounded once, if the reading has an instruction for it.
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        let _ = n;
        None
    }

    /// Is it known that all of these angles, none of them negative, are below
    /// [`moderate_bound`](math::moderate_bound)? A reading of several elements may test them; a
    /// reading used after such a test says true; all others say false. It changes no result: it
    /// skips the large-argument reduction, which is most of the work of a sine.
    #[inline(always)]
    fn are_moderate(self) -> bool {
        false
    }

    /// 1 where the mask is true, else 0.
    #[inline(always)]
    fn from_mask(mask: Self::Mask) -> Self {
        Self::select(mask, Self::lit(1.0), Self::lit(0.0))
    }
    /// True where the lane is not zero (NaN is not zero).
    #[inline(always)]
    fn to_mask(self) -> Self::Mask {
        self.ne(Self::lit(0.0))
    }

    /// The exact remainder of `self / other`, with the sign of `self` (C's `fmod`).
    fn fmod(self, other: Self) -> Self;

    /// e to the power of x. Bound: see `math::exp`.
    #[inline(always)]
    fn exp(self) -> Self {
        math::exp(self)
    }
    /// 2 to the power of x. Bound: see `math::exp2`.
    #[inline(always)]
    fn exp2(self) -> Self {
        math::exp2(self)
    }
    /// exp(x) - 1, accurate for tiny x. Bound: see `math::expm1`.
    #[inline(always)]
    fn expm1(self) -> Self {
        math::expm1(self)
    }
    /// The natural logarithm; -inf at 0, NaN below. Bound: see `math::log`.
    #[inline(always)]
    fn log(self) -> Self {
        math::log(self)
    }
    /// The logarithm to base 2. Bound: see `math::log2`.
    #[inline(always)]
    fn log2(self) -> Self {
        math::log2(self)
    }
    /// The logarithm to base 10. Bound: see `math::log10`.
    #[inline(always)]
    fn log10(self) -> Self {
        math::log10(self)
    }
    /// log(1 + x), accurate for tiny x. Bound: see `math::log1p`.
    #[inline(always)]
    fn log1p(self) -> Self {
        math::log1p(self)
    }
    /// Sine of an angle in radians, accurate for every argument. Bound: see `math::sin`.
    #[inline(always)]
    fn sin(self) -> Self {
        math::sin(self)
    }
    /// Cosine of an angle in radians, accurate for every argument. Bound: see `math::cos`.
    #[inline(always)]
    fn cos(self) -> Self {
        math::cos(self)
    }
    /// Tangent of an angle in radians, accurate for every argument. Bound: see `math::tan`.
    #[inline(always)]
    fn tan(self) -> Self {
        math::tan(self)
    }
    /// Inverse sine, in radians. Bound: see `math::asin`.
    #[inline(always)]
    fn asin(self) -> Self {
        math::asin(self)
    }
    /// Inverse cosine, in radians. Bound: see `math::acos`.
    #[inline(always)]
    fn acos(self) -> Self {
        math::acos(self)
    }
    /// Inverse tangent, in radians. Bound: see `math::atan`.
    #[inline(always)]
    fn atan(self) -> Self {
        math::atan(self)
    }
    /// Hyperbolic sine. Bound: see `math::sinh`.
    #[inline(always)]
    fn sinh(self) -> Self {
        math::sinh(self)
    }
    /// Hyperbolic cosine. Bound: see `math::cosh`.
    #[inline(always)]
    fn cosh(self) -> Self {
        math::cosh(self)
    }
    /// Hyperbolic tangent. Bound: see `math::tanh`.
    #[inline(always)]
    fn tanh(self) -> Self {
        math::tanh(self)
    }
    /// The error function 2/sqrt(pi) * integral from 0 to x of exp(-t^2). Bound: see `math::erf`.
    #[inline(always)]
    fn erf(self) -> Self {
        math::erf(self)
    }
    /// The normal distribution function, (1 + erf(x / sqrt(2))) / 2. Bound: see `math::phi`.
    #[inline(always)]
    fn phi(self) -> Self {
        math::phi(self)
    }
    /// Inverse hyperbolic sine. Bound: see `math::asinh`.
    #[inline(always)]
    fn asinh(self) -> Self {
        math::asinh(self)
    }
    /// Inverse hyperbolic cosine. Bound: see `math::acosh`.
    #[inline(always)]
    fn acosh(self) -> Self {
        math::acosh(self)
    }
    /// Inverse hyperbolic tangent. Bound: see `math::atanh`.
    #[inline(always)]
    fn atanh(self) -> Self {
        math::atanh(self)
    }
    /// 1 - erf(x), relatively accurate. Bound: see `math::erfc`.
    #[inline(always)]
    fn erfc(self) -> Self {
        math::erfc(self)
    }
    /// exp(x^2) erfc(x). Bound: see `math::erfcx`.
    #[inline(always)]
    fn erfcx(self) -> Self {
        math::erfcx(self)
    }
    /// The inverse of the error function. Bound: see `math::erfinv`.
    #[inline(always)]
    fn erfinv(self) -> Self {
        math::erfinv(self)
    }
    /// The normal distribution function, relatively accurate. Bound: see `math::ndtr`.
    #[inline(always)]
    fn ndtr(self) -> Self {
        math::ndtr(self)
    }
    /// The logarithm of the normal distribution function. Bound: see `math::log_ndtr`.
    #[inline(always)]
    fn log_ndtr(self) -> Self {
        math::log_ndtr(self)
    }
    /// The inverse of the normal distribution function. Bound: see `math::ndtri`.
    #[inline(always)]
    fn ndtri(self) -> Self {
        math::ndtri(self)
    }
    /// The logarithm of |gamma(x)|. Bound: see `math::lgamma`.
    #[inline(always)]
    fn lgamma(self) -> Self {
        math::lgamma(self)
    }
    /// The derivative of lgamma. Bound: see `math::digamma`.
    #[inline(always)]
    fn digamma(self) -> Self {
        math::digamma(self)
    }
    /// 1 / (1 + exp(-x)). Bound: see `math::sigmoid`.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        math::sigmoid(self)
    }
    /// 1 / sqrt(x). Bound: see `math::rsqrt`.
    #[inline(always)]
    fn rsqrt(self) -> Self {
        math::rsqrt(self)
    }
    /// `self` to the power of `y`, with IEEE 754's special values (`pow(x, 0) = pow(1, y) = 1` even
    /// for NaN).
    #[inline(always)]
    fn pow(self, y: Self) -> Self {
        math::pow(self, y)
    }
    /// The angle of the point (x, `self`), in radians, in -pi..=pi.
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        math::atan2(self, x)
    }
}
