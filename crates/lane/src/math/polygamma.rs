//! The derivatives of digamma.
//!
//! Made of the operations and functions of [`Lane`] alone, without bit patterns, so that the
//! formula
//! can be read in tensors: it is the gradient of digamma, and has gradients itself.

use crate::lane::Lane;
use core::f64::consts::PI;

/// The highest order.
pub const MOST: usize = 10;

/// Coefficients of a polynomial in the cotangent.
pub type Cotangent = [f64; MOST + 2];

/// The Bernoulli numbers B2, B4, ..
const BERNOULLI: [f64; 9] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
];

/// The derivative of pi cot(pi x) of order `n`, up to [`MOST`], as a polynomial in cot(pi x): that
/// of a power of it is -pi (1 + cot^2) times its slope.
pub fn cotangent(n: usize) -> Cotangent {
    let mut c = [0.0; MOST + 2];
    c[1] = PI;
    for _ in 0..n.min(MOST) {
        let mut next = [0.0; MOST + 2];
        for k in 1..MOST + 1 {
            let slope = -PI * k as f64 * c[k];
            next[k - 1] += slope;
            next[k + 1] += slope;
        }
        c = next;
    }
    c
}

/// x^n
#[inline(always)]
fn power<L: Lane>(x: L, n: usize) -> L {
    let mut y = x;
    for _ in 1..n {
        y = y * x;
    }
    y
}

/// The derivative of digamma of order `n`, in 1..=[`MOST`], with the polynomial of
/// [`cotangent`]`(n)`.
///
/// Terms n! / (x + i)^(n + 1) as far as 10 + n, and from there on the asymptotic series
/// (Abramowitz,
/// Stegun, 6.4.6 and 6.4.11); negative arguments are reflected (6.4.7).
#[inline(always)]
pub fn polygamma<L: Lane>(n: usize, turn: &Cotangent, x: L) -> L {
    let (zero, one) = (L::lit(0.0), L::lit(1.0));
    let a = x.abs();
    let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
    let first = one / power(a, n + 1);
    let steps = 10 + n;
    let mut sum = zero;
    for i in (1..steps).rev() {
        sum = sum + one / power(a + L::lit(i as f64), n + 1);
    }
    // The series over (n - 1)! y^-n: 1 + n / 2y + B2k (2k + n - 1)! / ((2k)! (n - 1)!) y^-2k.
    let inverse = one / (a + L::lit(steps as f64));
    let z = inverse * inverse;
    let mut series = zero;
    for k in (1..=BERNOULLI.len()).rev() {
        let c = BERNOULLI[k - 1] * factorial(2 * k + n - 1) / (factorial(2 * k) * factorial(n - 1));
        series = (series + L::lit(c)) * z;
    }
    let series = (series + L::lit(0.5 * n as f64) * inverse) + one;
    let all = L::lit(factorial(n));
    let rest = all * sum + L::lit(factorial(n - 1)) * power(inverse, n) * series;
    let sign = L::lit(if n.is_multiple_of(2) { -1.0 } else { 1.0 });
    let right = sign * (all * first + rest);

    // polygamma(n, -a) = (-1)^n (polygamma(n, a) + the derivative of pi cot(pi a)) + n! /
    // a^(n + 1):
    // the first term cancels.
    let angle = (a - a.round()) * L::lit(PI);
    let cotangent = angle.cos() / angle.sin();
    let mut poly = L::lit(turn[n + 1]);
    for k in (0..n + 1).rev() {
        poly = poly.fma(cotangent, L::lit(turn[k]));
    }
    let left = if n.is_multiple_of(2) { poly - rest } else { -poly - rest };
    L::select(x.lt(zero), left, right)
}
