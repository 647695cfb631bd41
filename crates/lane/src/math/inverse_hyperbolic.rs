//! asinh, acosh and atanh: logarithms of 1 and an algebraic number in two pieces.

use super::log::{log_pair, log1p_pair};
use super::parts::{Pair, by_width, exact_power, fast_two_sum, two_product, two_sum};
use crate::lane::Lane;

/// From here on asinh(x) and acosh(x) are log(2x).
const LARGE: f64 = exact_power(30);

/// The square root of a number in two pieces, in two pieces; 0 of 0.
#[inline(always)]
fn root<L: Lane>(w: Pair<L>) -> Pair<L> {
    let r = w.high.sqrt();
    let low = (r.fma(-r, w.high) + w.low) / (r + r);
    Pair { high: r, low: L::select(r.gt(L::lit(0.0)), low, L::lit(0.0)) }
}

/// log(2 a) for large a.
#[inline(always)]
fn log_of_double<L: Lane>(a: L) -> L {
    let l = log_pair(Pair { high: a, low: L::lit(0.0) });
    let ln_2 = &super::constants::LN_2;
    let sum = two_sum(l.high, ln_2.piece(0));
    let y = sum.high + (sum.low + (l.low + ln_2.piece::<L>(1)));
    L::select(a.lt(L::lit(f64::INFINITY)), y, a)
}

/// Inverse hyperbolic sine; odd, asinh(-0) = -0.
///
/// log(1 + u) with u = a + a^2 / (1 + sqrt(1 + a^2)).
///
/// Measured: 0.88 ULP in 32 bits, 0.7 in 64.
#[inline(always)]
pub fn asinh<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    let large = x.abs().gt(L::lit(LARGE));
    let a = L::select(large, one, x.abs());
    let square = two_product(a, a);
    let w = two_sum(one, square.high);
    let r = root(Pair { high: w.high, low: w.low + square.low });
    let bottom = fast_two_sum(r.high, one);
    let bottom = Pair { high: bottom.high, low: bottom.low + r.low };
    let q = square.high / bottom.high;
    let remainder = q.fma(-bottom.high, square.high) + q.fma(-bottom.low, square.low);
    let u = two_sum(a, q);
    let y = log1p_pair(Pair { high: u.high, low: u.low + remainder / bottom.high });
    let y = L::select(large, log_of_double(x.abs()), y);
    // x - x^3 / 6 rounds to x.
    L::select(x.abs().lt(by_width(1e-4, 1e-9)), x, y.with_sign_bit(x))
}

/// Inverse hyperbolic cosine; +0 at 1, NaN below.
///
/// log(1 + u) with u = t + sqrt(t (t + 2)), t = x - 1.
///
/// Measured: 0.87 ULP in 32 bits, 0.7 in 64.
#[inline(always)]
pub fn acosh<L: Lane>(x: L) -> L {
    let one = L::lit(1.0);
    let large = x.gt(L::lit(LARGE));
    let a = L::select(large, one, x);
    let t = fast_two_sum(a, -one);
    let square = two_product(a, a);
    let w = two_sum(square.high, -one);
    let w = fast_two_sum(w.high, w.low + square.low);
    let r = root(w);
    let u = two_sum(r.high, t.high);
    let y = log1p_pair(Pair { high: u.high, low: u.low + (r.low + t.low) });
    let y = L::select(large, log_of_double(x), y);
    L::select(x.lt(one), L::lit(f64::NAN), y)
}

/// Inverse hyperbolic tangent; odd, +-inf at +-1, NaN outside.
///
/// log(1 + 2a / (1 - a)) / 2.
///
/// Measured: 0.88 ULP in 32 bits, 0.7 in 64.
#[inline(always)]
pub fn atanh<L: Lane>(x: L) -> L {
    let (one, a) = (L::lit(1.0), x.abs());
    let bottom = fast_two_sum(one, -a);
    let top = a + a;
    let q = top / bottom.high;
    let remainder = q.fma(-bottom.low, q.fma(-bottom.high, top));
    let y = L::lit(0.5) * log1p_pair(Pair { high: q, low: remainder / bottom.high });
    let y = L::select(a.lt(by_width(1e-4, 1e-9)), a, y);
    let y = L::select(a.eq(one), L::lit(f64::INFINITY), y);
    L::select(a.gt(one), L::lit(f64::NAN), y.with_sign_bit(x))
}
