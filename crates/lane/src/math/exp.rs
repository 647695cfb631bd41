//! exp, exp2 and expm1, and the exponential in two pieces that the hyperbolic family is made of.
//!
//! x = n ln 2 + r with |r| <= ln(2) / 2, exp(x) = 2^n exp(r), exp(r) by a polynomial (Muller,
//! "Elementary Functions", 3rd edition, chapter 11; Cody & Waite 1980 for the subtraction of n ln 2
//! in pieces).

use super::constants::LN_2;
use super::parts::{
    Pair, by_width, clamp, fast_two_sum, polynomial, power_of_two, round_scaled, round_to_power,
    round_to_scale, two_sum,
};
use crate::lane::{Lane, LaneInt};

/// (exp(r) - 1 - r) / r^2 on |r| <= 0.42 (expm1 goes beyond ln(2) / 2); exp(r) to 2^-30.9.
const TAIL_32: [f64; 6] = [
    0.5,
    0.1666666716337204,
    0.04166620969772339,
    0.008333202451467514,
    0.0013957849005237222,
    0.00019948076806031168,
];

/// The same in 64 bits; exp(r) to 2^-65.5.
const TAIL_64: [f64; 12] = [
    0.5,
    0.16666666666666666,
    0.041666666666666796,
    0.00833333333333387,
    0.0013888888888815294,
    0.00019841269840128735,
    2.480158745352792e-05,
    2.75573203771844e-06,
    2.75571733162734e-07,
    2.5051532393400298e-08,
    2.0942957557774914e-09,
    1.6186438471732112e-10,
];

/// (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2, where exp needs no more; exp(r) to 2^-28.2.
const NEAR_32: [f64; 5] = [
    0.4999999403953552,
    0.1666652113199234,
    0.041668254882097244,
    0.008368661627173424,
    0.001382145332172513,
];

/// (2^r - 1) / r on |r| <= 1/2; 2^r to 2^-28.2.
const EXP2_32: [f64; 6] = [
    0.6931471824645996,
    0.24022650718688965,
    0.05550358071923256,
    0.00961807556450367,
    0.0013391643296927214,
    0.00015457191329915076,
];

/// The same in 64 bits; 2^r to 2^-59.4.
const EXP2_64: [f64; 12] = [
    0.6931471805599453,
    0.24022650695910072,
    0.055504108664822936,
    0.00961812910762805,
    0.0013333558146164312,
    0.00015403530394051684,
    1.5252734037029673e-05,
    1.3215486316924275e-06,
    1.0177985494673832e-07,
    7.055062799566993e-09,
    4.465567519442619e-10,
    2.5518508410476137e-11,
];

/// (exp(r) - 1 - r) / r^2
#[inline(always)]
pub(super) fn exp_tail<L: Lane>(r: L) -> L {
    if L::BITS == 32 { polynomial(r, &TAIL_32) } else { polynomial(r, &TAIL_64) }
}

/// x = n ln 2 + r: n, and r in two pieces.
///
/// The first fma is exact: x and n * (24-bit ln 2) are both multiples of an ULP small enough that
/// their difference, below 0.35, fits into a float.
#[inline(always)]
fn reduce<L: Lane>(x: L) -> (L::Int, Pair<L>) {
    let (n, whole) = round_scaled(x, L::lit(core::f64::consts::LOG2_E));
    (whole, reduce_by(n, x))
}

/// x - n ln 2 in two pieces.
#[inline(always)]
fn reduce_by<L: Lane>(n: L, x: L) -> Pair<L> {
    let r = n.fma(-LN_2.piece::<L>(0), x);
    let high = n.fma(-LN_2.piece::<L>(1), r);
    let low = n.fma(-LN_2.piece::<L>(1), r - high);
    Pair { high, low }
}

/// Lower clamp of exp and exp2 in f32 for readings that scale by any power ([`Lane::SCALES`]): e
/// and 2 to this are so far below the least subnormal that the scaling instruction returns zero at
/// once. Results from 2^-126 down to about 2^-500 take a slow path in it on Intel Xeons, and
/// exp(-inf), as masks have it, would be among them.
const FAR_BELOW: f64 = -1010.0;

/// exp(r.high + r.low) in two pieces, for |r| <= 0.42.
#[inline(always)]
pub(super) fn exp_reduced<L: Lane>(r: Pair<L>) -> Pair<L> {
    let tail = (r.high * r.high).fma(exp_tail(r.high), r.low);
    let first = fast_two_sum(L::lit(1.0), r.high);
    fast_two_sum(first.high, first.low + tail)
}

/// exp(x) = 2^n * pair, for x where n is a small whole number.
#[inline(always)]
pub(super) fn exp_pair<L: Lane>(x: L) -> (L::Int, Pair<L>) {
    let (n, r) = reduce(x);
    (n, exp_reduced(r))
}

/// The same with 2^n as two powers, for n that may be beyond the exponents of normal numbers.
#[inline(always)]
pub(super) fn exp_halves<L: Lane>(x: L) -> ([L; 2], Pair<L>) {
    let (n, scale) = round_to_scale(x, L::lit(core::f64::consts::LOG2_E));
    (scale.halves(), exp_reduced(reduce_by(n, x)))
}

/// The same with 2^n, for n that is within them.
#[inline(always)]
pub(super) fn exp_power<L: Lane>(x: L) -> (L, Pair<L>) {
    let (n, power) = round_to_power(x, L::lit(core::f64::consts::LOG2_E), 0);
    (power, exp_reduced(reduce_by(n, x)))
}

/// e to the power of x.
///
/// exp(-inf) = +0, exp(+-0) = 1; overflows to infinity, underflows through the subnormals to zero.
///
/// Measured: 0.90 ULP in 32 bits, 0.87 in 64.
#[inline(always)]
pub fn exp<L: Lane>(x: L) -> L {
    // Past these the result is infinity, or rounds to zero.
    let low = if L::SCALES { FAR_BELOW } else { -104.0 };
    let x = if L::BITS == 32 { clamp(x, low, 89.0) } else { clamp(x, -746.0, 710.0) };
    let (n, scale) = round_to_scale(x, L::lit(core::f64::consts::LOG2_E));
    let r = n.fma(-LN_2.piece::<L>(1), n.fma(-LN_2.piece::<L>(0), x));
    // 1 + r (1 + r q): the inner sum is near 1, and its rounding error is multiplied by r.
    let one = L::lit(1.0);
    let tail = if L::BITS == 32 { polynomial(r, &NEAR_32) } else { exp_tail(r) };
    scale.times(r.fma(r.fma(tail, one), one))
}

/// 2 to the power of x. Whole numbers give exact powers.
///
/// Measured: 0.88 ULP in 32 bits, 0.8 in 64.
#[inline(always)]
pub fn exp2<L: Lane>(x: L) -> L {
    let low = if L::SCALES { FAR_BELOW } else { -151.0 };
    let x = if L::BITS == 32 { clamp(x, low, 129.0) } else { clamp(x, -1076.0, 1025.0) };
    let (n, scale) = round_to_scale(x, L::lit(1.0));
    let r = x - n;
    let y = r.fma(if L::BITS == 32 { polynomial(r, &EXP2_32) } else { polynomial(r, &EXP2_64) }, L::lit(1.0));
    scale.times(y)
}

/// exp(x) - 1, with all its digits for tiny x.
///
/// exp(x) in two pieces, halved so that nothing overflows before the result does; minus 1/2 with
/// the error of the subtraction kept; doubled. Up to 0.42 x is not reduced: doubling exp(r) and
/// taking 1 off would leave a smaller number with twice the error.
///
/// Measured: 0.93 ULP in 32 bits, 0.91 in 64.
#[inline(always)]
pub fn expm1<L: Lane>(x: L) -> L {
    let y = if L::BITS == 32 { clamp(x, -20.0, 89.0) } else { clamp(x, -40.0, 710.0) };
    let (n, r) = reduce(y);
    let near = y.abs().lt(L::lit(0.42));
    let n = L::Int::select(near, L::Int::lit(0), n);
    let r = Pair { high: L::select(near, y, r.high), low: L::select(near, L::lit(0.0), r.low) };
    let e = exp_reduced(r);
    let s = power_of_two::<L>(n - L::Int::lit(1));
    let d = two_sum(s * e.high, L::lit(-0.5));
    let result = (d.high + s.fma(e.low, d.low)) * L::lit(2.0);
    // x + x^2 / 2 rounds to x or its neighbour here, and halving a subnormal would lose a bit.
    L::select(x.abs().lt(by_width(2.9e-8, 5.0e-17)), x, result)
}
