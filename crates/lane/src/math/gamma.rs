//! The logarithm of |gamma(x)| and its derivatives: lgamma, digamma, polygamma.
//!
//! Between 1/2 and 5/2 a polynomial around the root at 1 or 2 (around that at 1.46 for digamma), so
//! that results have their digits there; up to 8 what the recurrence gamma(x + 1) = x gamma(x)
//! leads there; beyond 8 Stirling's series (Abramowitz, Stegun: "Handbook of Mathematical
//! Functions", 6.1.41 and 6.3.18). Negative arguments are reflected, by sines of exact angles:
//! there a result near 0 is the difference of larger numbers, and its error counts absolutely.

use super::constants::Pieces;
use super::log::log_pair;
use super::parts::{Pair, by_width, fast_two_sum, polynomial, two_product, two_sum};
use super::trig::{cos_moderate, sin_moderate};
use crate::lane::Lane;
use core::f64::consts::PI;

/// lgamma(1 + d) / d on |d| <= 1/2, to 2^-25.4, relatively.
const ABOUT_1_32: [f64; 15] = [
    -0.5772156715393066,
    0.822467029094696,
    -0.4006832540035248,
    0.27057936787605286,
    -0.2075253129005432,
    0.16966238617897034,
    -0.14100809395313263,
    0.12325092405080795,
    -0.14263564348220825,
    0.12115047872066498,
    0.07254431396722794,
    -0.008967931382358074,
    -0.49019449949264526,
    0.24320028722286224,
    0.3093709647655487,
];

/// lgamma(2 + d) / d on |d| <= 1/2, to 2^-25.9.
const ABOUT_2_32: [f64; 10] = [
    0.42278432846069336,
    0.32246702909469604,
    -0.06735144555568695,
    0.02058142051100731,
    -0.0074028572998940945,
    0.002878118073567748,
    -0.0010791892418637872,
    0.0005883103585802019,
    -0.00046701249084435403,
    -5.083752330392599e-05,
];

/// x times what Stirling's formula leaves of lgamma(x), in x^-2, for x from 8 on, to 2^-28.6,
/// absolutely.
const STIRLING_32: [f64; 3] = [0.0833333358168602, -0.0027789787854999304, 0.0008614104590378702];

/// [`ABOUT_1_32`] in 64 bits, to 2^-54.7.
const ABOUT_1_64: [f64; 30] = [
    -0.5772156649015329,
    0.8224670334241132,
    -0.40068563438652344,
    0.2705808084277852,
    -0.2073855510308187,
    0.16955717699848638,
    -0.1440498965426816,
    0.1255096693555729,
    -0.11133427831163852,
    0.10009946845785274,
    -0.09095360696216255,
    0.08335344681403972,
    -0.07694128700025192,
    0.07144182539389603,
    -0.06654115674682876,
    0.06236727419004458,
    -0.060120782863175105,
    0.05694680109307223,
    -0.04329843568904976,
    0.039833742984153125,
    -0.09510413820530082,
    0.0976680187321305,
    0.12435885187600124,
    -0.1436961243749641,
    -0.43544929642124797,
    0.4749532682304765,
    0.5316807711323506,
    -0.5878980715194262,
    -0.43400788422512854,
    0.46408734403309765,
];

/// [`ABOUT_2_32`] in 64 bits, to 2^-55.5.
const ABOUT_2_64: [f64; 20] = [
    0.42278433509846713,
    0.3224670334241132,
    -0.06735230105319492,
    0.020580808427789473,
    -0.007385551029010151,
    0.002890510330319625,
    -0.0011927538980158851,
    0.0005096695402808146,
    -0.00022315503740501184,
    9.945721299577678e-05,
    -4.492304877003212e-05,
    2.0510538681769078e-05,
    -9.460815101568373e-06,
    4.352871335179985e-06,
    -1.9566817121623758e-06,
    1.0409151551723173e-06,
    -6.182155124280683e-07,
    2.9151068533294593e-08,
    3.2557767817527866e-08,
    2.1608252239817304e-07,
];

/// [`STIRLING_32`] in 64 bits, to 2^-57.6.
const STIRLING_64: [f64; 8] = [
    0.08333333333333333,
    -0.0027777777777487156,
    0.0007936507638419973,
    -0.0005952266257141612,
    0.0008396477143713253,
    -0.0017192210623090437,
    -0.002904851137773563,
    0.14581190380324535,
];

/// digamma(r + d) / d for the root r, for r + d in 1 ..= 2, to 2^-25.6, relatively.
const FROM_ROOT_32: [f64; 12] = [
    0.9676722288131714,
    -0.44276317954063416,
    0.2585035264492035,
    -0.1639433056116104,
    0.10768688470125198,
    -0.0721295028924942,
    0.05056898668408394,
    -0.034476906061172485,
    0.013099214062094688,
    -0.006684913765639067,
    0.029823167249560356,
    -0.02701220102608204,
];

/// (log(x) - 1 / (2x) - digamma(x)) x^2 in x^-2, for x from 8 on, to 2^-28.6, absolutely.
const ASYMPTOTE_32: [f64; 3] = [0.0833333358168602, -0.00833407323807478, 0.003952272702008486];

/// [`FROM_ROOT_32`] in 64 bits, to 2^-54.0.
const FROM_ROOT_64: [f64; 24] = [
    0.9676722454476212,
    -0.4427631689835921,
    0.2584997609556161,
    -0.1639427054423923,
    0.1078240506972114,
    -0.0721995612598725,
    0.0488042877688071,
    -0.033161126196502376,
    0.022597661707200793,
    -0.01542477694104149,
    0.01053852365154345,
    -0.007204286473202675,
    0.00493010279527635,
    -0.0033732052359441854,
    0.002278711306947769,
    -0.0015473780024841208,
    0.0012134614309371205,
    -0.0009009069806915115,
    8.119879759938097e-05,
    0.00020494042021896458,
    0.0009791693299781984,
    -0.0011981030334084564,
    -0.00042029011514673885,
    0.0007410876104267657,
];

/// [`ASYMPTOTE_32`] in 64 bits, to 2^-57.6.
const ASYMPTOTE_64: [f64; 8] = [
    0.08333333333333333,
    -0.008333333333303576,
    0.003968253936983123,
    -0.004166654284728547,
    0.007573398089985483,
    -0.020856703770356682,
    0.07094530440251828,
    -0.1329390235531316,
];

/// The root of digamma.
const ROOT: Pieces = Pieces {
    single: [1.4616321325302124, 1.243815006546356e-08, -1.2654464444209374e-16],
    double: [1.4616321449683622, 9.549995429965697e-17, 2.89392992820415e-33],
};

/// The same less 1.
const ROOT_LESS_1: Pieces = Pieces {
    single: [0.4616321325302124, 1.243815006546356e-08, -1.2654464444209374e-16],
    double: [0.46163214496836236, -1.5522348162858677e-17, 2.89392992820415e-33],
};

/// d times a polynomial in d, in two pieces: the first coefficient is the largest part.
#[inline(always)]
fn times_polynomial<L: Lane, const N: usize>(d: L, c: &[f64; N]) -> Pair<L> {
    let mut sum = L::lit(c[N - 1]);
    for i in (1..N - 1).rev() {
        sum = sum.fma(d, L::lit(c[i]));
    }
    let p = fast_two_sum(L::lit(c[0]), d * sum);
    let y = two_product(d, p.high);
    Pair { high: y.high, low: d.fma(p.low, y.low) }
}

/// `a` where the mask is true, else `b`.
#[inline(always)]
fn choose<L: Lane>(mask: L::Mask, a: Pair<L>, b: Pair<L>) -> Pair<L> {
    Pair { high: L::select(mask, a.high, b.high), low: L::select(mask, a.low, b.low) }
}

/// The logarithm of |gamma(x)|; inf at 0, the negative whole numbers and the infinities.
///
/// Bound: 3 ULP in 32 bits, 2 in 64; below 0 of 1, where the result is smaller.
#[inline(always)]
pub fn lgamma<L: Lane>(x: L) -> L {
    let (zero, one, half) = (L::lit(0.0), L::lit(1.0), L::lit(0.5));
    let infinity = L::lit(f64::INFINITY);
    let a = x.abs();
    let (tiny, low, middle) = (a.lt(half), a.lt(L::lit(1.5)), a.lt(L::lit(8.0)));

    // gamma(a) = (a - 1) (a - 2) .. gamma(r) with r below 5/2; each difference is exact.
    let (mut r, mut product) = (a, Pair { high: one, low: zero });
    for _ in 0..6 {
        let more = r.ge(L::lit(2.5)) & middle;
        let less = r - one;
        let next = two_product(product.high, less);
        let next = Pair { high: next.high, low: product.low.fma(less, next.low) };
        product = choose::<L>(more, next, product);
        r = L::select(more, less, r);
    }
    // gamma(x) = gamma(1 + x) / x near 0, on both sides.
    let d = L::select(tiny, x, L::select(low, a - one, r - L::lit(2.0)));
    let d = L::select(middle, d, zero);
    let (about_1, about_2) = if L::BITS == 32 {
        (times_polynomial(d, &ABOUT_1_32), times_polynomial(d, &ABOUT_2_32))
    } else {
        (times_polynomial(d, &ABOUT_1_64), times_polynomial(d, &ABOUT_2_64))
    };
    let of_polynomial = choose::<L>(low, about_1, about_2);
    let taken = choose::<L>(middle, product, Pair { high: a, low: zero });
    let taken = choose::<L>(tiny, Pair { high: a, low: zero }, taken);
    let l = log_pair(taken);
    let sign = L::select(tiny, -one, one);
    let sum = two_sum(sign * l.high, of_polynomial.high);
    let near = Pair { high: sum.high, low: sum.low + sign.fma(l.low, of_polynomial.low) };

    // (a - 1/2) (log(a) - 1) + log(2 pi) / 2 - 1/2 and the series.
    let (b, m) = (fast_two_sum(a, -half), fast_two_sum(l.high, -one));
    let main = two_product(b.high, m.high);
    let rest = b.high.fma(m.low + l.low, b.low.fma(m.high, main.low));
    let inverse = one / a;
    let z = inverse * inverse;
    let series = if L::BITS == 32 { polynomial(z, &STIRLING_32) } else { polynomial(z, &STIRLING_64) };
    let sum = fast_two_sum(main.high, L::lit(0.418_938_533_204_672_74));
    let far = Pair { high: sum.high, low: sum.low + series.fma(inverse, rest) };
    let far = choose::<L>(main.high.lt(infinity), far, Pair { high: main.high, low: zero });

    let y = choose::<L>(middle, near, far);
    // gamma(-a) gamma(a) = -pi / (a sin(pi a)). Near a pole the logarithms cancel, so both are
    // taken in two pieces.
    let s = sin_moderate((a - a.round()) * L::lit(PI)).abs();
    let l = log_pair(Pair { high: a * s * L::lit(core::f64::consts::FRAC_1_PI), low: zero });
    let sum = two_sum(l.high, y.high);
    let reflected = -(sum.high + (sum.low + (l.low + y.low)));
    let reflected = L::select(s.eq(zero), infinity, reflected);
    let y = L::select(x.lt(zero) & !tiny, reflected, y.high + y.low);
    let y = L::select(a.eq(zero) | a.eq(infinity), infinity, y);
    L::select(x.is_nan(), x, y)
}

/// The derivative of lgamma: -inf at 0, inf at -0, NaN at the negative whole numbers.
///
/// Bound: 6 ULP in 32 bits, 3 in 64; below 0 of 8, where the result is smaller.
#[inline(always)]
pub fn digamma<L: Lane>(x: L) -> L {
    let (zero, one) = (L::lit(0.0), L::lit(1.0));
    let a = x.abs();
    let (low, middle, negative) = (a.lt(one), a.lt(L::lit(8.0)), x.lt(zero));
    // digamma(a) = 1 / (a - 1) + 1 / (a - 2) + .. + digamma(r) with r below 2.
    let (mut r, mut sum) = (a, zero);
    for _ in 0..6 {
        let more = r.ge(L::lit(2.0)) & middle;
        let less = r - one;
        sum = sum + L::select(more, one / less, zero);
        r = L::select(more, less, r);
    }
    // Below 1 it is digamma(1 + a).
    let d = L::select(
        low,
        (a - ROOT_LESS_1.piece(0)) - ROOT_LESS_1.piece::<L>(1),
        (r - ROOT.piece(0)) - ROOT.piece::<L>(1),
    );
    let d = L::select(middle, d, zero);
    let p =
        if L::BITS == 32 { times_polynomial(d, &FROM_ROOT_32) } else { times_polynomial(d, &FROM_ROOT_64) };
    let inverse = one / a;
    let z = inverse * inverse;
    let series = if L::BITS == 32 { polynomial(z, &ASYMPTOTE_32) } else { polynomial(z, &ASYMPTOTE_64) };
    let l = log_pair(Pair { high: L::select(middle, one, a), low: zero });
    let far = l.high + (l.low - (series.fma(z, L::lit(0.5) * inverse)));
    let far = L::select(a.eq(L::lit(f64::INFINITY)), a, far);
    // What the step from 1 + a to a, or from a to -a, adds.
    let step = L::select(low ^ negative, inverse, zero);
    let step = L::select(negative, step, -step);
    let step = L::select(low & negative, zero, L::select(low | negative, step, zero));
    let near = two_sum(p.high, sum + step);
    let near = near.high + (near.low + p.low);
    let y = L::select(middle, near, far + step);
    let angle = (a - a.round()) * L::lit(PI);
    let turn = L::lit(PI) * (cos_moderate(angle) / sin_moderate(angle));
    let reflected = L::select(angle.eq(zero), L::lit(f64::NAN), y + turn);
    let y = L::select(negative, reflected, y);
    // Near 0 it is -1 / x, and both steps above may be infinite.
    L::select(a.lt(by_width(1e-9, 1e-18)), -one / x, y)
}
