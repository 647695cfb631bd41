//! 1 / (1 + exp(-x)), the logistic function.

use super::exp::{exp, exp_halves};
use super::parts::{Pair, sign_is_set};
use crate::lane::Lane;

/// 1 / (1 + exp(-x)); 0 at -inf, 1/2 at zeros, 1 at inf. Small results keep all their digits.
///
/// Measured: 1.65 ULP in 32 bits, 0.75 in 64.
#[inline(always)]
pub fn sigmoid<L: Lane>(x: L) -> L {
    if L::BITS == 32 { sigmoid_32(x) } else { sigmoid_64(x) }
}

/// With E = exp(-|x|), which is at most 1, and q = E / (1 + E): 1 - q for positive x, E - E q for
/// negative. So what q is off counts half at most, and little where E is small.
///
/// Its bound is 2 ULP: 1 would take the exponential and the divisor in two pieces each, and twice
/// as long.
#[inline(always)]
fn sigmoid_32<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    let e = exp(-x.abs());
    let q = e / (one + e);
    let whole = L::select(sign_is_set(x), e, one);
    (-whole).fma(q, whole)
}

/// With E in two pieces: 1 / (1 + E) for positive x, E / (1 + E) for negative. The divisor is kept
/// in two pieces, and the quotient corrected by its exact remainder.
#[inline(always)]
fn sigmoid_64<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    let ([s1, s2], e) = exp_halves((-x.abs()).at_least(L::lit(-746.0)));
    let s = s1 * s2;
    let divisor = s.fma(e.high, one);
    let rest = s.fma(e.low, s.fma(e.high, one - divisor));

    let negative = sign_is_set(x);
    let num = Pair { high: L::select(negative, e.high, one), low: L::select(negative, e.low, L::lit(0.0)) };
    let inverse = one / divisor;
    let q = num.high * inverse;
    let remainder = q.fma(-divisor, num.high) + q.fma(-rest, num.low);
    let y = remainder.fma(inverse, q);
    // A negative x still has its power of two to get: in two steps, because it may be subnormal.
    y * L::select(negative, s1, one) * L::select(negative, s2, one)
}
