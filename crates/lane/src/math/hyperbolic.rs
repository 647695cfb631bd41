//! sinh, cosh and tanh.
//!
//! Near zero an odd polynomial, so that the result is x plus a small correction; farther out the
//! exponential in two pieces (Muller, "Elementary Functions", chapter 11). tanh in 32 bits is one
//! quotient of exp(2|x|) - 1 everywhere.

use super::exp::{exp_pair, exp_power};
use super::parts::{Pair, clamp_above, fast_two_sum, polynomial, power_of_two, round_to_power};
use crate::lane::{Lane, LaneInt};

/// (((exp(2 r) - 1) / 2 - r) / r^2 - 1) / r on |r| <= ln(2) / 4; what it is of the exponential to
/// 2^-25.8 of r.
const TANH_32: [f64; 4] =
    [0.6666619181632996, 0.33333128690719604, 0.13385798037052155, 0.044608332216739655];

/// (tanh(x) / x - 1) / x^2 in x^2 on 0 ..= 0.625; tanh to 2^-56.4, relatively.
const TANH_64: [f64; 11] = [
    -0.33333333333332854,
    0.13333333333261982,
    -0.05396825393122913,
    0.021869487575385507,
    -0.008863220994888935,
    0.003591989120346291,
    -0.0014549586380672754,
    0.0005863158424207388,
    -0.00022856294120677896,
    7.714305305053248e-05,
    -1.6071980043478272e-05,
];

/// (sinh(x) / x - 1) / x^2 in x^2 on 0 ..= 1; sinh to 2^-31.4, relatively.
const SINH_32: [f64; 4] =
    [0.1666666716337204, 0.008333315141499043, 0.00019841665925923735, 2.7899839096789947e-06];

/// The same in 64 bits; sinh to 2^-62.6, relatively.
const SINH_64: [f64; 8] = [
    0.16666666666666666,
    0.008333333333333519,
    0.00019841269841133232,
    2.755731927390287e-06,
    2.5052098350165263e-08,
    1.6060174315015305e-10,
    7.580157504091657e-13,
    4.448995073979093e-15,
];

/// exp(|x|) / 4 and exp(-|x|) / 4, each in two pieces. Quarters, so that nothing overflows before
/// the result does.
#[inline(always)]
fn quarters<L: Lane>(x: L) -> (Pair<L>, Pair<L>) {
    // Past these the result is infinity, and 2^(n - 2) is still a normal number.
    let a = if L::BITS == 32 { clamp_above(x.abs(), 89.7) } else { clamp_above(x.abs(), 710.7) };
    let (n, e) = exp_pair(a);
    let s = power_of_two::<L>(n - L::Int::lit(2));
    let grown = Pair { high: s * e.high, low: s * e.low };
    let shrunk = L::lit(0.0625) / grown.high;
    let remainder = shrunk.fma(-grown.low, shrunk.fma(-grown.high, L::lit(0.0625)));
    // 1 / grown is 16 shrunk.
    (grown, Pair { high: shrunk, low: L::lit(16.0) * shrunk * remainder })
}

/// Hyperbolic sine; odd, sinh(-0) = -0.
///
/// Measured: 0.74 ULP in 32 bits, 0.71 in 64.
#[inline(always)]
pub fn sinh<L: Lane>(x: L) -> L {
    let z = x * x;
    let p = if L::BITS == 32 { polynomial(z, &SINH_32) } else { polynomial(z, &SINH_64) };
    let near = (x * z).fma(p, x);
    let (grown, shrunk) = quarters(x);
    let sum = fast_two_sum(grown.high, -shrunk.high);
    let far = (sum.high + (sum.low + (grown.low - shrunk.low))) * L::lit(2.0);
    L::select(x.abs().lt(L::lit(1.0)), near, far.with_sign_bit(x))
}

/// Hyperbolic cosine; cosh(0) = 1.
///
/// Measured: 0.66 ULP in 32 bits, 0.64 in 64.
#[inline(always)]
pub fn cosh<L: Lane>(x: L) -> L {
    let (grown, shrunk) = quarters(x);
    let sum = fast_two_sum(grown.high, shrunk.high);
    (sum.high + (sum.low + (grown.low + shrunk.low))) * L::lit(2.0)
}

/// Hyperbolic tangent; odd, +-1 at the infinities.
///
/// Measured: 1.61 ULP in 32 bits, 0.79 in 64.
#[inline(always)]
pub fn tanh<L: Lane>(x: L) -> L {
    if L::BITS == 32 { tanh_32(x) } else { tanh_64(x) }
}

/// h / (h + 1) with h = (exp(2|x|) - 1) / 2, the sum of `most` and `rest`; and where h is small
/// that is h less the product of h and the quotient, of which only `most` has no smaller neighbour:
/// so the errors of the others hardly count.
///
/// 2|x| = n ln 2 + 2 r: ln 2 in 32 bits is off by 2^-28 of itself, so that r is exact for the small
/// n for which it counts.
///
/// Its bound is 2 ULP: 1 would take two polynomials, near zero and far out, 22 multiplications
/// instead of 11 and a quotient, and be slower. (Of all results 0.44 % are not the nearest float.)
#[inline(always)]
fn tanh_32<L: Lane>(x: L) -> L {
    let (half, one) = (L::lit(0.5), L::lit(1.0));
    // One by one: `map` of an array is a call that is not inlined everywhere.
    let [c2, c3, c4, c5] = TANH_32;
    let (c2, c3, c4, c5) = (L::lit(c2), L::lit(c3), L::lit(c4), L::lit(c5));
    // From here on the result rounds to 1.
    let a = clamp_above(x.abs(), 10.0);
    let (n, half_power) = round_to_power(a, L::lit(2.0 * core::f64::consts::LOG2_E), -1);
    let r = n.fma(L::lit(-0.5 * core::f64::consts::LN_2), a);
    let (power, square) = (half_power + half_power, r * r);
    // Two independent halves, to shorten the dependency chain.
    let p = square.fma(square.fma(c5, r.fma(c4, c3)), r.fma(c2, one));
    let most = power.fma(r, half_power - half);
    let rest = square * p * power;
    let h = most + rest;
    let quotient = h / (h + one);
    let near = most + (-h).fma(quotient, rest);
    // The sign once more, for -0.
    L::select(h.lt(half), near, quotient).with_sign_bit(x)
}

/// Far out 1 - 2 / (exp(2|x|) + 1), with the divisor in two pieces and the quotient corrected by
/// its remainder.
#[inline(always)]
fn tanh_64<L: Lane>(x: L) -> L {
    let z = x * x;
    let near = (x * z).fma(polynomial(z, &TANH_64), x);

    let one = L::lit(1.0);
    // From here on the result rounds to 1.
    let a = clamp_above(x.abs(), 20.0);
    let (s, e) = exp_power(a + a);
    let divisor = fast_two_sum(s * e.high, one);
    let rest = s.fma(e.low, divisor.low);
    let q = L::lit(2.0) / divisor.high;
    let remainder = q.fma(-rest, q.fma(-divisor.high, L::lit(2.0)));
    // 1 / divisor is q / 2.
    let far = fast_two_sum(one, -q);
    let far = far.high + (L::lit(-0.5) * q).fma(remainder, far.low);
    // The sign once more, for -0: a negative coefficient makes its correction +0.
    L::select(x.abs().lt(L::lit(0.625)), near, far).with_sign_bit(x)
}
