//! The error function.

use super::exp::{exp_pair, exp2};
use super::parts::{Pair, clamp, fast_two_sum, polynomial, power_of_two, two_product};
use crate::lane::Lane;

/// erf(x) / x - 1 in x^2 on 0 ..= 27/32, to 2^-29.9.
const NEAR_32: [f64; 7] = [
    0.12837916612625122,
    -0.37612634897232056,
    0.11283731460571289,
    -0.026861924678087234,
    0.00520833395421505,
    -0.000823651032987982,
    8.813833846943453e-05,
];

/// The same in 64 bits, to 2^-56.2 (what the rounding of the first coefficient leaves).
const NEAR_64: [f64; 14] = [
    0.1283791670955126,
    -0.37612638903183965,
    0.1128379167096587,
    -0.02686617064766176,
    0.005223977659012008,
    -0.0008548329800763515,
    0.00012055484985039959,
    -1.493134204137818e-05,
    1.6610195376144378e-06,
    -1.904072983257235e-07,
    4.771251886504732e-08,
    -2.7522696283566017e-08,
    1.239793069836221e-08,
    -2.5647620939272577e-09,
];

/// From here on the complement: it is below 1/4, and so are the errors of the exponential, and
/// before here the first two terms of the series do not cancel much.
const EDGE: f64 = 27.0 / 32.0;

/// The binary logarithm of 1 - erf(27/32), in two pieces.
const AT_EDGE: [f64; 2] = [-2.1029961109161377, 3.9166732079820576e-8];

/// (log2(1 - erf(27/32 + u)) - log2(1 - erf(27/32))) / u on 0 ..= 3.11, to 2^-22.3; the error
/// counts times u and times 1 - erf.
const FAR_32: [f64; 8] = [
    -3.4317383766174316,
    -1.1860023736953735,
    -0.06977161020040512,
    0.016957059502601624,
    -0.0033691839780658484,
    0.0004946519038639963,
    -4.6151395508786663e-05,
    1.9962235455750488e-06,
];

/// (1 - erf(x)) exp(x^2) in t = (x - 2.5) / (x + 2.5), for x in 27/32 ..= 6, to 2^-57.2: the value
/// at t = 0, and the other coefficients.
const FAR_64_AT_0: f64 = 0.2108063640611436;
/// See [`FAR_64_AT_0`].
const FAR_64: [f64; 16] = [
    -0.37173673394897333,
    0.25171319321744906,
    -0.12503305237883355,
    0.03992253907552366,
    -0.003993701165626057,
    -0.0026423659598474535,
    0.0008759154454181569,
    0.00022838025979501832,
    -0.00012887714971368254,
    -3.418064452319267e-05,
    1.861495193925464e-05,
    7.541174866921075e-06,
    -2.3055436273979168e-06,
    -1.760059644817061e-06,
    1.1596650396417982e-07,
    2.8208302594157115e-07,
];

/// 1 - erf(a) in two pieces, for a in 27/32..=3.95.
///
/// Its logarithm is a polynomial, as in N. Juffa's erff; the value at the edge is added last and in
/// two pieces, because the largest errors come from there.
#[inline(always)]
fn complement_32<L: Lane>(a: L) -> Pair<L> {
    let u = a - L::lit(EDGE);
    let t = u.fma(polynomial(u, &FAR_32), L::lit(AT_EDGE[1]));
    // Exact while t is the smaller; farther out the complement is too small for it to matter.
    let p = fast_two_sum(L::lit(AT_EDGE[0]), t);
    let e = exp2(p.high);
    Pair { high: e, low: e * (L::lit(core::f64::consts::LN_2) * p.low) }
}

/// 1 - erf(a) in two pieces, for a in 27/32..=6.
///
/// exp(-a^2) times a smooth function of t = (a - 2.5) / (a + 2.5). The logarithm of the other form
/// is no polynomial of a bearable degree in 64 bits. Square, exponential and the last step of the
/// polynomial carry their errors along; so does t, whose error the slope of the smooth function
/// passes on.
#[inline(always)]
fn complement_64<L: Lane>(a: L) -> Pair<L> {
    let top = a - L::lit(2.5);
    let bottom = fast_two_sum(L::lit(2.5), a);
    let inverse = L::lit(1.0) / bottom.high;
    let t = top * inverse;
    let t_rest = t.fma(-bottom.low, t.fma(-bottom.high, top)) * inverse;
    let rise = polynomial(t, &FAR_64);
    let step = two_product(t, rise);
    let smooth = fast_two_sum(L::lit(FAR_64_AT_0), step.high);
    let slope = t.fma(L::lit(2.0 * FAR_64[1]), L::lit(FAR_64[0]));
    let smooth_low = t_rest.fma(slope, smooth.low + step.low);

    let square = two_product(a, a);
    let (n, e) = exp_pair(-square.high);
    let s = power_of_two::<L>(n);
    let product = two_product(e.high, smooth.high);
    let low = e.high.fma(smooth_low, e.low.fma(smooth.high, product.low));
    Pair { high: s * product.high, low: s * product.high.fma(-square.low, low) }
}

/// erf(x) / x - 1 from x^2, for |x| below the edge.
#[inline(always)]
pub(super) fn near_slope<L: Lane>(z: L) -> L {
    if L::BITS == 32 { polynomial(z, &NEAR_32) } else { polynomial(z, &NEAR_64) }
}

/// The error function 2/sqrt(pi) * integral from 0 to x of exp(-t^2); odd, +-1 at the infinities.
///
/// Near zero x plus x times a polynomial; farther out 1 minus the complement.
///
/// Measured: 0.8 ULP in 32 bits, 0.78 in 64.
#[inline(always)]
pub fn erf<L: Lane>(x: L) -> L {
    let near = x.fma(near_slope(x * x), x);
    // From the upper end on the result rounds to 1; below the lower end the other polynomial is
    // taken.
    let c = if L::BITS == 32 {
        complement_32(clamp(x.abs(), EDGE, 3.95))
    } else {
        complement_64(clamp(x.abs(), EDGE, 6.0))
    };
    let sum = fast_two_sum(L::lit(1.0), -c.high);
    let far = (sum.high + (sum.low - c.low)).with_sign_bit(x);
    L::select(x.abs().lt(L::lit(EDGE)), near, far)
}
