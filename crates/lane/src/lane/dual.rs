//! `Dual`: a lane together with its derivative, carried along by the chain rule.
//!
//! Reading a formula in duals gives its gradient, so a new op is differentiable at once. At corners
//! and discontinuities the slope follows PyTorch's conventions; the tests list them.
//!
//! How it can be wrong: 0 times infinity. A constant has the slope 0, and the branch that a select
//! does not take may have a derivative that is infinite or NaN; neither may reach the result. So a
//! slope of zero stays zero whatever it is multiplied by (`chain`), and a select selects slopes as
//! it selects values. Where the slope is a constant, which is nearly always, the check costs
//! nothing: compilers and traces fold it.

use super::Lane;
use crate::math;
use core::f64::consts;
use core::ops::{Add, Div, Mul, Neg, Sub};

/// A value and its derivative by one chosen variable.
#[derive(Clone, Copy, Debug)]
pub struct Dual<L: Lane> {
    /// The value.
    pub value: L,
    /// Its derivative.
    pub slope: L,
}

/// `slope * factor`, but zero where the slope is zero: a constant stays constant, even at a pole.
#[inline(always)]
fn chain<L: Lane>(slope: L, factor: L) -> L {
    let zero = L::lit(0.0);
    L::select(slope.eq(zero), zero, slope * factor)
}

/// `a * fa + b * fb`, the slope of a function of two lanes; a term without slope is left out.
#[inline(always)]
fn chain2<L: Lane>(a: L, fa: L, b: L, fb: L) -> L {
    let zero = L::lit(0.0);
    let (no_a, no_b) = (a.eq(zero), b.eq(zero));
    let first = L::select(no_a, zero, a * fa);
    let second = b * fb;
    L::select(no_b, first, L::select(no_a, second, first + second))
}

impl<L: Lane> Dual<L> {
    /// A number whose slope is zero.
    #[inline(always)]
    fn constant(value: L) -> Self {
        Self { value, slope: L::lit(0.0) }
    }
    /// `value`, a function of `self` with this derivative.
    #[inline(always)]
    fn follow(self, value: L, derivative: L) -> Self {
        Self { value, slope: chain(self.slope, derivative) }
    }
}

impl<L: Lane> Add for Dual<L> {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Self { value: self.value + o.value, slope: self.slope + o.slope }
    }
}

impl<L: Lane> Sub for Dual<L> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Self { value: self.value - o.value, slope: self.slope - o.slope }
    }
}

impl<L: Lane> Mul for Dual<L> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Self { value: self.value * o.value, slope: chain2(self.slope, o.value, o.slope, self.value) }
    }
}

impl<L: Lane> Div for Dual<L> {
    type Output = Self;
    /// (a / b)' = (a' - (a / b) b') / b
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        let (zero, q) = (L::lit(0.0), self.value / o.value);
        let top = L::select(o.slope.eq(zero), self.slope, self.slope - q * o.slope);
        Self { value: q, slope: L::select(top.eq(zero), zero, top / o.value) }
    }
}

impl<L: Lane> Neg for Dual<L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self { value: -self.value, slope: -self.slope }
    }
}

/// The slope of the smaller (`a_first`) or larger of two: a tie gives half to each side, NaN lets
/// both through.
#[inline(always)]
fn extreme<L: Lane>(a_first: L::Mask, b_first: L::Mask, a: Dual<L>, b: Dual<L>) -> L {
    let both = a.slope + b.slope;
    let tied = L::select(a.value.eq(b.value), L::lit(0.5) * both, both);
    L::select(a_first, a.slope, L::select(b_first, b.slope, tied))
}

impl<L: Lane> Lane for Dual<L> {
    type Mask = L::Mask;
    type Int = L::Int;
    const BITS: u32 = L::BITS;

    #[inline(always)]
    fn bits() -> u32 {
        L::bits()
    }
    #[inline(always)]
    fn lit(v: f64) -> Self {
        Self::constant(L::lit(v))
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let product = chain2(self.slope, b.value, b.slope, self.value);
        Self { value: self.value.fma(b.value, c.value), slope: product + c.slope }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        let y = self.value.sqrt();
        self.follow(y, L::lit(0.5) / y)
    }
    /// The slope is 0 at 0.
    #[inline(always)]
    fn abs(self) -> Self {
        let (x, zero) = (self.value, L::lit(0.0));
        // A constant at 0: with x itself, the second derivative would be 1 there. NaN stays NaN.
        let still = L::select(x.eq(zero), zero, x);
        let sign = L::select(x.gt(zero), L::lit(1.0), L::select(x.lt(zero), L::lit(-1.0), still));
        self.follow(x.abs(), sign)
    }
    #[inline(always)]
    fn min(self, o: Self) -> Self {
        let slope = extreme(self.value.lt(o.value), o.value.lt(self.value), self, o);
        Self { value: self.value.min(o.value), slope }
    }
    #[inline(always)]
    fn max(self, o: Self) -> Self {
        let slope = extreme(o.value.lt(self.value), self.value.lt(o.value), self, o);
        Self { value: self.value.max(o.value), slope }
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self::constant(self.value.round())
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self::constant(self.value.floor())
    }
    #[inline(always)]
    fn ceil(self) -> Self {
        Self::constant(self.value.ceil())
    }
    #[inline(always)]
    fn trunc(self) -> Self {
        Self::constant(self.value.trunc())
    }
    #[inline(always)]
    fn with_sign_bit(self, sign: Self) -> Self {
        self.copysign(sign)
    }
    /// 1 or -1 as the sign was kept or flipped, 0 at 0; the sign's own slope has no effect.
    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        let one = L::lit(1.0);
        let kept = one.copysign(self.value) * one.copysign(sign.value);
        let derivative = L::select(self.value.eq(L::lit(0.0)), L::lit(0.0), kept);
        self.follow(self.value.copysign(sign.value), derivative)
    }

    #[inline(always)]
    fn lt(self, o: Self) -> L::Mask {
        self.value.lt(o.value)
    }
    #[inline(always)]
    fn le(self, o: Self) -> L::Mask {
        self.value.le(o.value)
    }
    #[inline(always)]
    fn eq(self, o: Self) -> L::Mask {
        self.value.eq(o.value)
    }
    #[inline(always)]
    fn select(mask: L::Mask, a: Self, b: Self) -> Self {
        Self { value: L::select(mask, a.value, b.value), slope: L::select(mask, a.slope, b.slope) }
    }
    #[inline(always)]
    fn to_bits(self) -> L::Int {
        self.value.to_bits()
    }
    #[inline(always)]
    fn from_bits(bits: L::Int) -> Self {
        Self::constant(L::from_bits(bits))
    }
    #[inline(always)]
    fn to_int(self) -> L::Int {
        self.value.to_int()
    }
    #[inline(always)]
    fn from_int(v: L::Int) -> Self {
        Self::constant(L::from_int(v))
    }

    /// x - trunc(x / y) y: the slope is 1 by x, and -trunc(x / y) by y.
    #[inline(always)]
    fn fmod(self, o: Self) -> Self {
        let by_o = -(self.value / o.value).trunc();
        Self { value: self.value.fmod(o.value), slope: chain2(self.slope, L::lit(1.0), o.slope, by_o) }
    }

    #[inline(always)]
    fn exp(self) -> Self {
        let y = self.value.exp();
        self.follow(y, y)
    }
    #[inline(always)]
    fn exp2(self) -> Self {
        let y = self.value.exp2();
        self.follow(y, L::lit(consts::LN_2) * y)
    }
    #[inline(always)]
    fn expm1(self) -> Self {
        let y = self.value.expm1();
        self.follow(y, y + L::lit(1.0))
    }
    #[inline(always)]
    fn log(self) -> Self {
        self.follow(self.value.log(), L::lit(1.0) / self.value)
    }
    #[inline(always)]
    fn log2(self) -> Self {
        self.follow(self.value.log2(), L::lit(consts::LOG2_E) / self.value)
    }
    #[inline(always)]
    fn log10(self) -> Self {
        self.follow(self.value.log10(), L::lit(consts::LOG10_E) / self.value)
    }
    #[inline(always)]
    fn log1p(self) -> Self {
        self.follow(self.value.log1p(), L::lit(1.0) / (L::lit(1.0) + self.value))
    }
    #[inline(always)]
    fn sin(self) -> Self {
        self.follow(self.value.sin(), self.value.cos())
    }
    #[inline(always)]
    fn cos(self) -> Self {
        self.follow(self.value.cos(), -self.value.sin())
    }
    #[inline(always)]
    fn tan(self) -> Self {
        let y = self.value.tan();
        self.follow(y, y.fma(y, L::lit(1.0)))
    }
    /// 1 / sqrt((1 - x)(1 + x)): no cancellation near the ends.
    #[inline(always)]
    fn asin(self) -> Self {
        self.follow(self.value.asin(), arc_slope(self.value))
    }
    #[inline(always)]
    fn acos(self) -> Self {
        self.follow(self.value.acos(), -arc_slope(self.value))
    }
    #[inline(always)]
    fn atan(self) -> Self {
        let x = self.value;
        self.follow(x.atan(), L::lit(1.0) / x.fma(x, L::lit(1.0)))
    }
    #[inline(always)]
    fn sinh(self) -> Self {
        self.follow(self.value.sinh(), self.value.cosh())
    }
    #[inline(always)]
    fn cosh(self) -> Self {
        self.follow(self.value.cosh(), self.value.sinh())
    }
    /// (1 - y)(1 + y): both differences are exact where it matters; 1 - y^2 would round the square
    /// first.
    #[inline(always)]
    fn tanh(self) -> Self {
        let (y, one) = (self.value.tanh(), L::lit(1.0));
        self.follow(y, (one - y) * (one + y))
    }
    #[inline(always)]
    fn erf(self) -> Self {
        let x = self.value;
        self.follow(x.erf(), L::lit(consts::FRAC_2_SQRT_PI) * (-(x * x)).exp())
    }
    #[inline(always)]
    fn phi(self) -> Self {
        let x = self.value;
        let density = L::lit(0.5 * consts::FRAC_2_SQRT_PI * consts::FRAC_1_SQRT_2);
        self.follow(x.phi(), density * (L::lit(-0.5) * (x * x)).exp())
    }
    #[inline(always)]
    fn asinh(self) -> Self {
        self.follow(self.value.asinh(), asinh_slope(self.value))
    }
    #[inline(always)]
    fn acosh(self) -> Self {
        self.follow(self.value.acosh(), acosh_slope(self.value))
    }
    #[inline(always)]
    fn atanh(self) -> Self {
        let (x, one) = (self.value, L::lit(1.0));
        self.follow(x.atanh(), one / ((one - x) * (one + x)))
    }
    #[inline(always)]
    fn erfc(self) -> Self {
        let x = self.value;
        self.follow(x.erfc(), L::lit(-consts::FRAC_2_SQRT_PI) * (-(x * x)).exp())
    }
    #[inline(always)]
    fn erfcx(self) -> Self {
        let y = self.value.erfcx();
        self.follow(y, (self.value + self.value).fma(y, L::lit(-consts::FRAC_2_SQRT_PI)))
    }
    #[inline(always)]
    fn erfinv(self) -> Self {
        let y = self.value.erfinv();
        self.follow(y, L::lit(1.0 / consts::FRAC_2_SQRT_PI) * (y * y).exp())
    }
    #[inline(always)]
    fn ndtr(self) -> Self {
        let x = self.value;
        let density = L::lit(0.5 * consts::FRAC_2_SQRT_PI * consts::FRAC_1_SQRT_2);
        self.follow(x.ndtr(), density * (L::lit(-0.5) * (x * x)).exp())
    }
    /// sqrt(2 / pi) / erfcx(-x / sqrt(2))
    #[inline(always)]
    fn log_ndtr(self) -> Self {
        let x = self.value;
        let rate = L::lit(consts::FRAC_2_SQRT_PI * consts::FRAC_1_SQRT_2);
        self.follow(x.log_ndtr(), rate / (x * L::lit(-consts::FRAC_1_SQRT_2)).erfcx())
    }
    #[inline(always)]
    fn ndtri(self) -> Self {
        let y = self.value.ndtri();
        let scale = L::lit(2.0 * consts::SQRT_2 / consts::FRAC_2_SQRT_PI);
        self.follow(y, scale * (L::lit(0.5) * y * y).exp())
    }
    #[inline(always)]
    fn lgamma(self) -> Self {
        self.follow(self.value.lgamma(), self.value.digamma())
    }
    #[inline(always)]
    fn digamma(self) -> Self {
        let x = self.value;
        self.follow(x.digamma(), math::polygamma(1, &math::cotangent(1), x))
    }
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let y = self.value.sigmoid();
        self.follow(y, y * (L::lit(1.0) - y))
    }
    /// -y / 2x: unlike -y^3 / 2 it neither overflows nor underflows before the slope does.
    #[inline(always)]
    fn rsqrt(self) -> Self {
        let y = self.value.rsqrt();
        self.follow(y, L::lit(-0.5) * y / self.value)
    }
    /// y x^(y-1) by x, and 0 for y = 0; x^y log(x) by y, and 0 for x = 0 unless y is negative.
    #[inline(always)]
    fn pow(self, o: Self) -> Self {
        let (x, y, zero) = (self.value, o.value, L::lit(0.0));
        let power = x.pow(y);
        let by_x = L::select(y.eq(zero), zero, y * x.pow(y - L::lit(1.0)));
        let by_y = L::select(x.eq(zero) & y.ge(zero), zero, power * x.log());
        Self { value: power, slope: chain2(self.slope, by_x, o.slope, by_y) }
    }
    /// x / r^2 by y and -y / r^2 by x, 0 at the origin. r^2 is taken relative to the larger of the
    /// two, and so does not overflow.
    #[inline(always)]
    fn atan2(self, x: Self) -> Self {
        let (zero, one) = (L::lit(0.0), L::lit(1.0));
        let larger = self.value.abs().max(x.value.abs());
        let origin = larger.eq(zero);
        let inverse = one / L::select(origin, one, larger);
        let (v, u) = (self.value * inverse, x.value * inverse);
        let share = inverse / v.fma(v, u * u);
        let by_y = L::select(origin, zero, u * share);
        let by_x = L::select(origin, zero, -v * share);
        Self { value: self.value.atan2(x.value), slope: chain2(self.slope, by_y, x.slope, by_x) }
    }
}

/// The derivative of the inverse hyperbolic sine: 1 / |x| where the square might overflow.
#[inline(always)]
fn asinh_slope<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    L::select(x.abs().gt(L::lit(1e9)), one / x.abs(), x.fma(x, one).rsqrt())
}

/// The derivative of the inverse hyperbolic cosine, of two roots: no square overflows.
#[inline(always)]
fn acosh_slope<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    one / ((x - one).sqrt() * (x + one).sqrt())
}

/// The derivative of the arc sine.
#[inline(always)]
fn arc_slope<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    one / ((one - x) * (one + x)).sqrt()
}

#[cfg(test)]
mod tests;
