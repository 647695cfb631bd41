//! Building blocks of the elementary functions: polynomials, error-free sums and products, and
//! powers of two made from bits.
//!
//! The sums and products are error-free only as long as nothing overflows, and products only while
//! their low half stays above the smallest subnormal. Callers ensure that.

use crate::lane::{Lane, LaneInt};

/// Bits of the fraction: the exponent field starts here.
#[inline(always)]
pub fn fraction_bits<L: Lane>() -> u32 {
    if L::BITS == 32 { 23 } else { 52 }
}

/// The exponent field of 1.0.
#[inline(always)]
pub fn bias<L: Lane>() -> i64 {
    if L::BITS == 32 { 127 } else { 1023 }
}

/// The smallest normal number.
#[inline(always)]
pub fn min_normal<L: Lane>() -> L {
    L::lit(if L::BITS == 32 { f32::MIN_POSITIVE as f64 } else { f64::MIN_POSITIVE })
}

/// `single` in 32-bit lanes, `double` in 64-bit lanes.
#[inline(always)]
pub fn by_width<L: Lane>(single: f64, double: f64) -> L {
    L::lit(if L::BITS == 32 { single } else { double })
}

/// 2^n, for constants; the standard library's powers are of unspecified precision.
#[inline(always)]
pub const fn exact_power(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// c\[0\] + c\[1\] x + c\[2\] x^2 + ..., by Horner's rule in fma.
#[inline(always)]
pub fn polynomial<L: Lane, const N: usize>(x: L, c: &[f64; N]) -> L {
    let mut sum = L::lit(c[N - 1]);
    for i in (0..N - 1).rev() {
        sum = sum.fma(x, L::lit(c[i]));
    }
    sum
}

/// The bits of 1.5 * 2^(fraction bits), the number at which one ULP is 1.
#[inline(always)]
fn magic<L: Lane>() -> (L, i64) {
    if L::BITS == 32 {
        (L::lit(12_582_912.0), 0x4b40_0000)
    } else {
        (L::lit(6_755_399_441_055_744.0), 0x4338_0000_0000_0000)
    }
}

/// The whole number next to x * scale, as a float and as an integer. For |x * scale| below 2^21 in
/// 32 bits, 2^50 in 64 bits.
///
/// Adding 1.5 * 2^(fraction bits) leaves no room for a fraction, so the fma rounds to a whole
/// number, and the number's own bits are the integer: no conversion instruction, which vector units
/// of the AVX2 kind lack for 64 bits, and no care for values that do not fit.
#[inline(always)]
pub fn round_scaled<L: Lane>(x: L, scale: L) -> (L, L::Int) {
    let (magic, magic_bits) = magic::<L>();
    let shifted = x.fma(scale, magic);
    (shifted - magic, shifted.to_bits() - L::Int::lit(magic_bits))
}

/// The whole number n next to x * scale, as [`round_scaled`], and 2^(n + more), which has to be a
/// normal number.
///
/// The exponent's bias is added with the magic number, so that one shift makes a power of the bits:
/// those of the magic number leave at the top.
#[inline(always)]
pub fn round_to_power<L: Lane>(x: L, scale: L, more: i64) -> (L, L) {
    let (magic, _) = magic::<L>();
    let magic = magic + L::lit((bias::<L>() + more) as f64);
    let shifted = x.fma(scale, magic);
    (shifted - magic, L::from_bits(shifted.to_bits().shl(fraction_bits::<L>())))
}

/// The whole number n next to x * scale, as [`round_scaled`], and 2^n, for n to twice the range of
/// the exponents.
#[inline(always)]
pub fn round_to_scale<L: Lane>(x: L, scale: L) -> (L, Scale<L>) {
    let (magic, _) = magic::<L>();
    // Twice the bias: each of two powers gets half of it.
    let magic = magic + L::lit((2 * bias::<L>()) as f64);
    let shifted = x.fma(scale, magic);
    let whole = shifted - magic;
    (whole, Scale { whole, shifted })
}

/// 2^n.
#[derive(Clone, Copy)]
pub struct Scale<L> {
    whole: L,
    /// n and twice the bias, in the last bits of a magic number.
    shifted: L,
}

impl<L: Lane> Scale<L> {
    /// y * 2^n, rounded once, for y near 1: by the instruction for that, or as two products with
    /// powers of two, of which only the second can round.
    #[inline(always)]
    pub fn times(self, y: L) -> L {
        if let Some(scaled) = y.scaled(self.whole) {
            return scaled;
        }
        let [first, second] = self.halves();
        y * first * second
    }

    /// Two powers of two, of about the same size, whose product it is.
    #[inline(always)]
    pub fn halves(self) -> [L; 2] {
        let bits = self.shifted.to_bits();
        // Halving leaves zeros below where the magic number's own bits begin.
        let half = bits.shr(1);
        [power_of_bits(half), power_of_bits(bits - half)]
    }
}

/// 2 to the power of what the last bits are, without the bias.
#[inline(always)]
fn power_of_bits<L: Lane>(bits: L::Int) -> L {
    L::from_bits(bits.shl(fraction_bits::<L>()))
}

/// A small integer (below 2^21 in magnitude) as a float, by the same trick backwards.
#[inline(always)]
pub fn small_to_float<L: Lane>(n: L::Int) -> L {
    let (magic, magic_bits) = magic::<L>();
    L::from_bits(n + L::Int::lit(magic_bits)) - magic
}

/// 2^n, for n within the exponents of normal numbers.
#[inline(always)]
pub fn power_of_two<L: Lane>(n: L::Int) -> L {
    L::from_bits((n + L::Int::lit(bias::<L>())).shl(fraction_bits::<L>()))
}

/// True where the sign bit is set.
#[inline(always)]
pub fn sign_is_set<L: Lane>(x: L) -> L::Mask {
    x.to_bits().lt(L::Int::lit(0))
}

/// `low..=high`, and NaN stays NaN.
#[inline(always)]
pub fn clamp<L: Lane>(x: L, low: f64, high: f64) -> L {
    clamp_above(x.at_least(L::lit(low)), high)
}

/// At most `high`, and NaN stays NaN.
#[inline(always)]
pub fn clamp_above<L: Lane>(x: L, high: f64) -> L {
    x.at_most(L::lit(high))
}

/// A number as the sum of two lanes, `low` no larger than about an ULP of `high`.
#[derive(Clone, Copy)]
pub struct Pair<L> {
    pub high: L,
    pub low: L,
}

/// a + b exactly, if |a| >= |b| or a is zero (Dekker 1971).
#[inline(always)]
pub fn fast_two_sum<L: Lane>(a: L, b: L) -> Pair<L> {
    let high = a + b;
    Pair { high, low: (a - high) + b }
}

/// a + b exactly, in any order (Knuth, TAOCP 2, 4.2.2).
#[inline(always)]
pub fn two_sum<L: Lane>(a: L, b: L) -> Pair<L> {
    let high = a + b;
    let b_seen = high - a;
    let a_seen = high - b_seen;
    Pair { high, low: (a - a_seen) + (b - b_seen) }
}

/// a * b exactly.
#[inline(always)]
pub fn two_product<L: Lane>(a: L, b: L) -> Pair<L> {
    let high = a * b;
    Pair { high, low: a.fma(b, -high) }
}

/// a * b to about twice the precision of a lane.
#[inline(always)]
pub fn pair_product<L: Lane>(a: Pair<L>, b: Pair<L>) -> Pair<L> {
    let p = two_product(a.high, b.high);
    Pair { high: p.high, low: a.low.fma(b.high, a.high.fma(b.low, p.low)) }
}
