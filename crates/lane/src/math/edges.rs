//! The values at the edges: zeros, infinities, NaN, ends of domains, and results that are exact.
//!
//! Each row is run in both widths. A zero has to have the right sign; any NaN is a NaN.

use super::*;
use core::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The same value, zeros with the same sign, any NaN like any other.
fn same(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits()
}

/// A function in both widths, seen through f64.
struct Both<const N: usize>(&'static str, fn([f64; N]) -> f64, fn([f64; N]) -> f64);

macro_rules! both {
    ($f:ident, 1) => {
        Both::<1>(stringify!($f), |[x]: [f64; 1]| f64::from($f(x as f32)), |[x]: [f64; 1]| $f(x))
    };
    ($f:ident, 2) => {
        Both::<2>(
            stringify!($f),
            |[x, y]: [f64; 2]| f64::from($f(x as f32, y as f32)),
            |[x, y]: [f64; 2]| $f(x, y),
        )
    };
}

/// Runs rows of (inputs, result). A result is rounded to f32 for the 32-bit form.
fn check<const N: usize>(Both(name, single, double): Both<N>, rows: &[([f64; N], f64)]) {
    for &(x, want) in rows {
        let (got_32, got_64, want_32) = (single(x), double(x), f64::from(want as f32));
        assert!(same(got_32, want_32), "{name}({x:?}) in 32 bits: {got_32:?}, not {want_32:?}");
        assert!(same(got_64, want), "{name}({x:?}) in 64 bits: {got_64:?}, not {want:?}");
    }
}

/// Rows of one-argument functions without the brackets.
fn check1(f: Both<1>, rows: &[(f64, f64)]) {
    let rows: Vec<_> = rows.iter().map(|&(x, y)| ([x], y)).collect();
    check(f, &rows);
}

#[test]
fn exponentials() {
    check1(
        both!(exp, 1),
        &[
            (0.0, 1.0),
            (-0.0, 1.0),
            (INF, INF),
            (-INF, 0.0),
            (NAN, NAN),
            (1e4, INF), // past the clamp
            (-1e4, 0.0),
        ],
    );
    check1(
        both!(exp2, 1),
        &[
            (0.0, 1.0),
            (1.0, 2.0),
            (-1.0, 0.5), // whole numbers are exact
            (127.0, 2.0f64.powi(127)),
            (-126.0, 2.0f64.powi(-126)),
            (-149.0, 2.0f64.powi(-149)), // the last subnormal in 32 bits
            (1e4, INF),
            (-1e4, 0.0),
            (INF, INF),
            (-INF, 0.0),
            (NAN, NAN),
        ],
    );
    check1(
        both!(expm1, 1),
        &[
            (0.0, 0.0),
            (-0.0, -0.0), // odd to first order
            (1e-40, 1e-40),
            (-1e-20, -1e-20),
            (INF, INF),
            (-INF, -1.0),
            (-50.0, -1.0),
            (1e4, INF),
            (NAN, NAN),
        ],
    );
    // The last one that is finite, and the next.
    assert_eq!(exp(88.722_83f32), f32::MAX - 123.0 * 2.0f32.powi(104));
    assert_eq!(exp(88.722_83f32.next_up()), f32::INFINITY);
    assert_eq!(exp2(-1074.0f64), 5e-324);
}

#[test]
fn logarithms() {
    let common = [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (INF, INF), (NAN, NAN)];
    check1(both!(log, 1), &common);
    check1(both!(log2, 1), &common);
    check1(both!(log10, 1), &common);
    // Powers of the base are exact, subnormal ones too.
    check1(
        both!(log2, 1),
        &[(2.0, 1.0), (0.125, -3.0), (2.0f64.powi(-149), -149.0), (2.0f64.powi(127), 127.0)],
    );
    check1(both!(log10, 1), &[(10.0, 1.0), (1000.0, 3.0), (1e10, 10.0)]);
    check1(
        both!(log1p, 1),
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (1e-40, 1e-40), // subnormal in 32 bits, and its own logarithm
            (-1.0, -INF),
            (-1.5, NAN),
            (-INF, NAN),
            (INF, INF),
            (NAN, NAN),
        ],
    );
}

#[test]
fn circular() {
    let odd = [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (INF, NAN), (-INF, NAN), (NAN, NAN)];
    check1(both!(sin, 1), &odd);
    check1(both!(tan, 1), &odd);
    check1(both!(cos, 1), &[(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)]);
    // The float nearest to a multiple of pi/2, the hardest to reduce (Muller, "Elementary
    // Functions", 11.3.2).
    let hard = 6_381_956_970_095_103.0 * 2.0f64.powi(797);
    assert_eq!(cos(hard), -4.687165924254628e-19);
    assert_eq!(sin(hard), 1.0);
    assert_eq!(sin(f32::MAX), -0.521_876_5);
    assert_eq!(sin(1e22f64), -0.8522008497671888);
}

/// Both ways of reducing an angle give the same bits on both sides of the boundary, which is what
/// lets a backend choose one of them.
#[test]
fn moderate_angles() {
    let mut x = 1e-3f32;
    while x < moderate_bound() {
        for x in [x, -x] {
            assert_eq!(sin(x).to_bits(), sin_moderate(x).to_bits(), "sin({x})");
            assert_eq!(cos(x).to_bits(), cos_moderate(x).to_bits(), "cos({x})");
        }
        x *= 1.001;
    }
}

#[test]
fn inverse_circular() {
    let outside = [(1.5, NAN), (-1.5, NAN), (INF, NAN), (NAN, NAN)];
    check1(both!(asin, 1), &outside);
    check1(both!(acos, 1), &outside);
    check1(both!(asin, 1), &[(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (1.0, FRAC_PI_2), (-1.0, -FRAC_PI_2)]);
    check1(both!(acos, 1), &[(1.0, 0.0), (0.0, FRAC_PI_2), (-1.0, PI)]);
    check1(
        both!(atan, 1),
        &[
            (0.0, 0.0),
            (-0.0, -0.0),
            (1e-40, 1e-40),
            (1.0, FRAC_PI_4),
            (INF, FRAC_PI_2),
            (-INF, -FRAC_PI_2),
            (1e38, FRAC_PI_2),
            (NAN, NAN),
        ],
    );
    check(
        both!(atan2, 2),
        &[
            ([0.0, 1.0], 0.0),
            ([-0.0, 1.0], -0.0),
            ([0.0, -1.0], PI),
            ([-0.0, -1.0], -PI), // below the cut
            ([0.0, 0.0], 0.0),
            ([-0.0, 0.0], -0.0),
            ([0.0, -0.0], PI),
            ([-0.0, -0.0], -PI),
            ([1.0, 0.0], FRAC_PI_2),
            ([1.0, -0.0], FRAC_PI_2),
            ([-1.0, 0.0], -FRAC_PI_2),
            ([2.5, 2.5], FRAC_PI_4),
            ([2.5, -2.5], 3.0 * FRAC_PI_4),
            ([INF, INF], FRAC_PI_4),
            ([-INF, INF], -FRAC_PI_4),
            ([INF, -INF], 3.0 * FRAC_PI_4),
            ([INF, 1.0], FRAC_PI_2),
            ([-INF, -1.0], -FRAC_PI_2),
            ([1.0, INF], 0.0),
            ([-1.0, INF], -0.0),
            ([1.0, -INF], PI),
            ([1e-38, 1e38], 1e-76), // zero in 32 bits
            ([3e38, -1e-45], FRAC_PI_2),
            ([NAN, 1.0], NAN),
            ([1.0, NAN], NAN),
            ([NAN, INF], NAN),
        ],
    );
}

#[test]
fn hyperbolic_and_friends() {
    let odd = [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (NAN, NAN)];
    check1(both!(sinh, 1), &odd);
    check1(both!(tanh, 1), &odd);
    check1(both!(sinh, 1), &[(INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF)]);
    check1(both!(cosh, 1), &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (-1e4, INF), (NAN, NAN)]);
    check1(both!(tanh, 1), &[(INF, 1.0), (-INF, -1.0), (25.0, 1.0), (-1e30, -1.0)]);
    check1(
        both!(erf, 1),
        &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (7.0, 1.0), (-1e30, -1.0), (NAN, NAN)],
    );
    check1(
        both!(sigmoid, 1),
        &[(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (-1e4, 0.0), (1e4, 1.0), (NAN, NAN)],
    );
    check1(
        both!(rsqrt, 1),
        &[
            (4.0, 0.5),
            (2.0f64.powi(-140), 2.0f64.powi(70)), // subnormal in 32 bits
            (0.0, INF),
            (-0.0, -INF),
            (INF, 0.0),
            (-1.0, NAN),
            (NAN, NAN),
        ],
    );
}

#[test]
fn special() {
    let odd = [(0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (NAN, NAN)];
    check1(both!(asinh, 1), &odd);
    check1(both!(asinh, 1), &[(INF, INF), (-INF, -INF)]);
    check1(both!(acosh, 1), &[(1.0, 0.0), (INF, INF), (0.5, NAN), (-2.0, NAN), (-INF, NAN), (NAN, NAN)]);
    check1(both!(atanh, 1), &odd);
    check1(both!(atanh, 1), &[(1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN)]);
    check1(both!(erfc, 1), &[(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (30.0, 0.0), (NAN, NAN)]);
    check1(both!(erfcx, 1), &[(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, INF), (-30.0, INF), (NAN, NAN)]);
    check1(
        both!(erfinv, 1),
        &[(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN), (NAN, NAN)],
    );
    check1(both!(ndtr, 1), &[(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (-50.0, 0.0), (NAN, NAN)]);
    check1(both!(log_ndtr, 1), &[(INF, -0.0), (-INF, -INF), (NAN, NAN)]);
    check1(
        both!(ndtri, 1),
        &[(0.0, -INF), (-0.0, -INF), (1.0, INF), (0.5, 0.0), (2.0, NAN), (-1.0, NAN), (NAN, NAN)],
    );
    check1(
        both!(lgamma, 1),
        &[
            (1.0, 0.0),
            (2.0, 0.0),
            (0.0, INF),
            (-0.0, INF),
            (-1.0, INF),
            (-1e30, INF), // whole, as all numbers of that size
            (INF, INF),
            (-INF, INF),
            (NAN, NAN),
        ],
    );
    check1(
        both!(digamma, 1),
        &[(0.0, -INF), (-0.0, INF), (-1.0, NAN), (-1e30, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    );
}

/// C99's list, annex F.9.4.4, row by row.
#[test]
fn powers() {
    check(
        both!(pow, 2),
        &[
            ([0.0, -3.0], INF),
            ([-0.0, -3.0], -INF), // odd
            ([0.0, -2.5], INF),
            ([-0.0, -2.0], INF),
            ([0.0, -INF], INF),
            ([0.0, 3.0], 0.0),
            ([-0.0, 3.0], -0.0),
            ([-0.0, 2.5], 0.0),
            ([0.0, INF], 0.0),
            ([-1.0, INF], 1.0),
            ([-1.0, -INF], 1.0),
            ([1.0, NAN], 1.0),
            ([1.0, INF], 1.0),
            ([NAN, 0.0], 1.0),
            ([NAN, -0.0], 1.0),
            ([INF, 0.0], 1.0),
            ([-2.0, 0.5], NAN),
            ([0.5, -INF], INF),
            ([-0.5, -INF], INF),
            ([1.5, -INF], 0.0),
            ([0.5, INF], 0.0),
            ([-1.5, INF], INF),
            ([-INF, -3.0], -0.0),
            ([-INF, -2.0], 0.0),
            ([-INF, -2.5], 0.0),
            ([-INF, 3.0], -INF),
            ([-INF, 2.0], INF),
            ([-INF, 0.5], INF),
            ([INF, -0.5], 0.0),
            ([INF, 0.5], INF),
            ([NAN, 1.0], NAN),
            ([2.0, NAN], NAN),
            ([-1.0, NAN], NAN),
            // Exact results.
            ([3.0, 2.0], 9.0),
            ([-3.0, 3.0], -27.0),
            ([10.0, 3.0], 1000.0),
            ([2.0, -126.0], 2.0f64.powi(-126)),
            ([2.0, -149.0], 2.0f64.powi(-149)),
            ([0.25, 0.5], 0.5),
            ([-2.0, 127.0], -(2.0f64.powi(127))),
            ([7.25, 1.0], 7.25),
            // Too large and too small.
            ([10.0, 1e4], INF),
            ([-10.0, 1e4 + 1.0], -INF),
            ([0.1, 1e4], 0.0),
            ([-10.0, -1e4 - 1.0], -0.0),
            ([0.5, 1e30], 0.0),
        ],
    );
}
