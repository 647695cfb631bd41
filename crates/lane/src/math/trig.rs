//! sin, cos and tan.
//!
//! The angle is reduced to |r| <= pi/4 in two pieces ([`super::reduce`]); sine and cosine of r are
//! polynomials whose large terms, r and 1 - r^2/2, are exact or carry their error along (Muller,
//! "Elementary Functions", chapter 12); the quadrant says which of the two it is, and the sign.

use super::parts::{Pair, exact_power, fast_two_sum, polynomial};
use super::reduce::{reduce, reduce_moderate};
use crate::lane::{Lane, LaneInt};

/// (sin(r) - r) / r^3 in r^2 on |r| <= pi/4; the sine to 2^-27.9, relatively.
const SIN_32: [f64; 3] = [-0.16666655242443085, 0.008332188241183758, -0.00019518072076607496];

/// The same in 64 bits, to 2^-62.9.
const SIN_64: [f64; 7] = [
    -0.16666666666666666,
    0.0083333333333331,
    -0.00019841269841057256,
    2.7557319129434247e-06,
    -2.5052086031240047e-08,
    1.605625861062588e-10,
    -7.485443506513529e-13,
];

/// (cos(r) - 1 + r^2/2) / r^4 in r^2 on |r| <= pi/4; the cosine to 2^-33.
const COS_32: [f64; 3] = [0.04166664555668831, -0.0013887309469282627, 2.4432338250335306e-05];

/// The same in 64 bits, to 2^-68.5.
const COS_64: [f64; 7] = [
    0.041666666666666664,
    -0.001388888888888845,
    2.4801587301262326e-05,
    -2.755731910221481e-07,
    2.087673215161415e-09,
    -1.146805772141231e-11,
    4.647455115071595e-14,
];

/// sin(r) and cos(r), each as a large piece and a correction, for |r| <= pi/4.
#[inline(always)]
fn sine_and_cosine<L: Lane>(r: Pair<L>) -> (Pair<L>, Pair<L>) {
    let (one, z) = (L::lit(1.0), r.high * r.high);
    let (p, q) = if L::BITS == 32 {
        (polynomial(z, &SIN_32), polynomial(z, &COS_32))
    } else {
        (polynomial(z, &SIN_64), polynomial(z, &COS_64))
    };
    // 1 - r^2 / 2, and what its rounding lost: the difference from 1 is exact, and r^2 is not
    // rounded.
    let half = L::lit(-0.5) * r.high;
    let large = half.fma(r.high, one);
    let lost = half.fma(r.high, one - large);
    // cos(r + d) = cos(r) - d sin(r), and sin(r) = r is near enough for d; sin(r + d) = sin(r) + d
    // cos(r), and so is 1 - r^2 / 2.
    let cosine = Pair { high: large, low: (z * z).fma(q, (-r.high).fma(r.low, lost)) };
    let sine = Pair { high: r.high, low: (r.high * z).fma(p, r.low * large) };
    (sine, cosine)
}

/// `y` with its sign flipped where bit 1 of the quadrant is set.
#[inline(always)]
fn turn<L: Lane>(y: L, quadrant: L::Int) -> L::Int {
    y.to_bits() ^ (quadrant & L::Int::lit(2)).shl(L::BITS - 2)
}

/// NaN for infinities and NaN.
#[inline(always)]
fn if_finite<L: Lane>(x: L, y: L) -> L {
    if x.abs().are_moderate() {
        return y;
    }
    L::select(x.abs().lt(L::lit(f64::INFINITY)), y, L::lit(f64::NAN))
}

/// Asked so, and not whether it is odd, it is one instruction: a mask that is negated goes through
/// registers of integers.
#[inline(always)]
fn is_even<L: Lane>(n: L::Int) -> L::Mask {
    (n & L::Int::lit(1)).eq(L::Int::lit(0))
}

#[inline(always)]
fn sin_of<L: Lane>(x: L, quadrant: L::Int, r: Pair<L>) -> L {
    let (s, c) = sine_and_cosine(r);
    let even = is_even::<L>(quadrant);
    let y = L::select(even, s.high, c.high) + L::select(even, s.low, c.low);
    let sign = x.to_bits() & L::Int::lit(1).shl(L::BITS - 1);
    if_finite(x, L::from_bits(turn(y, quadrant) ^ sign))
}

#[inline(always)]
fn cos_of<L: Lane>(x: L, quadrant: L::Int, r: Pair<L>) -> L {
    let (s, c) = sine_and_cosine(r);
    let even = is_even::<L>(quadrant);
    let y = L::select(even, c.high, s.high) + L::select(even, c.low, s.low);
    if_finite(x, L::from_bits(turn(y, quadrant + L::Int::lit(1))))
}

/// Sine; odd, sin(-0) = -0, NaN at the infinities.
///
/// Measured: 0.77 ULP in 32 bits, 0.69 in 64.
#[inline(always)]
pub fn sin<L: Lane>(x: L) -> L {
    let (n, r) = reduce(x.abs());
    sin_of(x, n, r)
}

/// Cosine; cos(0) = 1, NaN at the infinities.
///
/// Measured: 0.76 ULP in 32 bits, 0.7 in 64.
#[inline(always)]
pub fn cos<L: Lane>(x: L) -> L {
    let (n, r) = reduce(x.abs());
    cos_of(x, n, r)
}

/// [`sin`], right only below [`moderate_bound`](super::moderate_bound): the same bits there, at a
/// third of the cost.
#[inline(always)]
pub fn sin_moderate<L: Lane>(x: L) -> L {
    let (n, r) = reduce_moderate(x.abs());
    sin_of(x, n, r)
}

/// [`cos`], right only below [`moderate_bound`](super::moderate_bound).
#[inline(always)]
pub fn cos_moderate<L: Lane>(x: L) -> L {
    let (n, r) = reduce_moderate(x.abs());
    cos_of(x, n, r)
}

/// Tangent; odd, tan(-0) = -0, NaN at the infinities. No float is a pole.
///
/// Sine over cosine, both in two pieces, and the quotient corrected by its remainder; in odd
/// quadrants upside down, and negative.
///
/// Measured: 0.93 ULP in 32 bits, 0.79 in 64.
#[inline(always)]
pub fn tan<L: Lane>(x: L) -> L {
    let (n, r) = reduce(x.abs());
    let (s, c) = sine_and_cosine(r);
    let even = is_even::<L>(n);
    let up = fast_two_sum(L::select(even, s.high, c.high), L::select(even, s.low, c.low));
    let down = fast_two_sum(L::select(even, c.high, s.high), L::select(even, c.low, s.low));
    // One quotient, and no second one for what is left: it takes as long as all the rest of a
    // polynomial.
    let inverse = L::lit(1.0) / down.high;
    let q = up.high * inverse;
    let remainder = q.fma(-down.high, up.high) + q.fma(-down.low, up.low);
    let y = remainder.fma(inverse, q);
    // A subnormal quotient has no exact remainder; near zero the tangent is the angle.
    let y = L::select(r.high.abs().lt(L::lit(exact_power(-40))) & even, r.high + r.low, y);
    let sign = (n & L::Int::lit(1)).shl(L::BITS - 1) ^ (x.to_bits() & L::Int::lit(1).shl(L::BITS - 1));
    if_finite(x, L::from_bits(y.to_bits() ^ sign))
}
