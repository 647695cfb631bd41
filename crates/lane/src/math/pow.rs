//! x to the power of y.

use super::constants::{LN_2, LOG2_E, Pieces, TWO_FIFTHS, TWO_SEVENTHS, TWO_THIRDS};
use super::exp::exp_reduced;
use super::log::split;
use super::parts::{
    Pair, clamp, exact_power, fast_two_sum, pair_product, polynomial, round_to_scale, sign_is_set,
    small_to_float, two_product,
};
use crate::lane::Lane;

/// What follows 2 + 2/3 z in log((1 + s) / (1 - s)) / s, over z^2, z = s^2 on 0 ..= 0.1716^2; to
/// 2^-42.6.
const SERIES_32: [f64; 4] =
    [0.3999999761581421, 0.2857195734977722, 0.22181062400341034, 0.19527775049209595];

/// What follows 2 + 2/3 z + 2/5 z^2 + 2/7 z^3, over z^4; to 2^-78.2.
const SERIES_64: [f64; 7] = [
    0.22222222222229568,
    0.1818181817870261,
    0.15384615923102388,
    0.13333283800487467,
    0.11767338112925531,
    0.1044531664777582,
    0.10855239105434374,
];

/// `c + z * p`, all in two pieces, for c at least as large as the product.
#[inline(always)]
fn step<L: Lane>(c: &Pieces, z: Pair<L>, p: Pair<L>) -> Pair<L> {
    let product = pair_product(z, p);
    let sum = fast_two_sum(c.piece(0), product.high);
    Pair { high: sum.high, low: sum.low + (product.low + c.piece(1)) }
}

/// The binary logarithm of a positive finite number, in two pieces: good to about 2^-40
/// (2^-70 in 64 bits).
///
/// The series of log((1 + s) / (1 - s)) with s = f / (2 + f), its first terms in two pieces. A
/// power of 100 or of 1000 multiplies the error of the logarithm by as much, so it needs that many
/// more bits than the result.
#[inline(always)]
fn log2_pair<L: Lane>(x: L) -> Pair<L> {
    let (e, f) = split(x);
    let divisor = fast_two_sum(L::lit(2.0), f);
    let inverse = L::lit(1.0) / divisor.high;
    let q = f * inverse;
    let remainder = q.fma(-divisor.low, q.fma(-divisor.high, f));
    let s = fast_two_sum(q, remainder * inverse);
    let z = pair_product(s, s);
    let zero = L::lit(0.0);
    let series = if L::BITS == 32 {
        step(&TWO_THIRDS, z, Pair { high: polynomial(z.high, &SERIES_32), low: zero })
    } else {
        let p = Pair { high: polynomial(z.high, &SERIES_64), low: zero };
        step(&TWO_THIRDS, z, step(&TWO_FIFTHS, z, step(&TWO_SEVENTHS, z, p)))
    };
    let product = pair_product(z, series);
    let sum = fast_two_sum(L::lit(2.0), product.high);
    let natural = pair_product(s, Pair { high: sum.high, low: sum.low + product.low });
    let binary = pair_product(natural, Pair { high: LOG2_E.piece(0), low: LOG2_E.piece(1) });
    let total = fast_two_sum(small_to_float::<L>(e), binary.high);
    fast_two_sum(total.high, total.low + binary.low)
}

/// x to the power of y, with IEEE 754's special values.
///
/// 2 to the power of y log2(|x|), everything up to the last addition in two pieces. pow(x, 0) =
/// pow(1, y) = 1 even for NaN; a negative x needs a whole y (NaN otherwise), and an odd one makes
/// the result negative.
///
/// Measured: 0.8 ULP in 32 bits, 0.75 in 64.
#[inline(always)]
pub fn pow<L: Lane>(x: L, y: L) -> L {
    let (zero, one, infinity) = (L::lit(0.0), L::lit(1.0), L::lit(f64::INFINITY));
    let a = x.abs();
    let log = log2_pair(a);
    let log_high = L::select(a.lt(infinity), log.high, a);
    let log_high = L::select(a.eq(zero), -infinity, log_high);
    // A larger power overflows or underflows for every x but 1, for which infinity would give NaN.
    let large = if L::BITS == 32 { exact_power(64) } else { exact_power(128) };
    let z = clamp(y, -large, large);
    let p = two_product(z, log_high);
    let p_low = z.fma(log.low, p.low);

    // 2^(p + p_low) = 2^n exp((p - n + p_low) ln 2). Beyond the limit the result is infinity or
    // zero, and the low piece may be NaN.
    let limit = if L::BITS == 32 { 160.0 } else { 1100.0 };
    let within = p.high.abs().lt(L::lit(limit));
    let p_high = clamp(p.high, -limit, limit);
    let p_low = L::select(within, p_low, zero);
    let (n, scale) = round_to_scale(p_high, one);
    let ln_2 = Pair { high: LN_2.piece(0), low: LN_2.piece(1) };
    let r = pair_product(Pair { high: p_high - n, low: p_low }, ln_2);
    let e = exp_reduced(fast_two_sum(r.high, r.low));
    let magnitude = scale.times(e.high + e.low);

    let is_whole = y.floor().eq(y);
    let half = L::lit(0.5) * y;
    let is_odd = is_whole & half.floor().ne(half);
    let signed = L::select(sign_is_set(x) & is_odd, -magnitude, magnitude);
    let has_no_root = x.lt(zero) & a.lt(infinity) & !is_whole;
    let result = L::select(has_no_root, L::lit(f64::NAN), signed);
    L::select(x.eq(one) | y.eq(zero), one, result)
}
