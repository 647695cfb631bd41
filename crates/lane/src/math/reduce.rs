//! Angles taken off multiples of pi/2, for every finite angle: x = n pi/2 + r with |r| <= pi/4.
//!
//! Moderate angles take Cody and Waite's way: n pi/2 is subtracted in pieces. Large ones take Payne
//! and Hanek's ("Radian reduction for trigonometric functions", SIGNUM 1983): x is an integer times
//! a power of two, so that only a window of the bits of 2/pi decides the quadrant and the rest, and
//! those are multiplied as integers. There is no table to index: the window is picked by a tree of
//! selects over constants.

use super::constants::HALF_PI;
use super::parts::{Pair, bias, exact_power, fast_two_sum, fraction_bits, round_scaled, two_product};
use crate::lane::{Lane, LaneInt};

/// Below this magnitude an angle is moderate: 2^17 in 32-bit lanes, 2^30 in 64-bit lanes.
///
/// A backend that sees that a whole block of angles is below may run
/// [`sin_moderate`](super::sin_moderate) in place of [`sin`](super::sin): the bits are the same.
#[inline(always)]
pub fn moderate_bound<L: Lane>() -> L {
    L::lit(if L::BITS == 32 { 131_072.0 } else { 1_073_741_824.0 })
}

/// Bits of 2/pi behind 8 zeros, in words of 32.
const WORDS_32: [i64; 7] =
    [0x00a2_f983, 0x6e4e_4415, 0x29fc_2757, 0xd1f5_34dd, 0xc0db_6295, 0x993c_4390, 0x41fe_5163];

/// Bits of 2/pi behind 24 zeros, in words of 64.
const WORDS_64: [u64; 19] = [
    0x0000_00a2_f983_6e4e,
    0x4415_29fc_2757_d1f5,
    0x34dd_c0db_6295_993c,
    0x4390_41fe_5163_abde,
    0xbbc5_61b7_246e_3a42,
    0x4dd2_e006_492e_ea09,
    0xd192_1cfe_1deb_1cb1,
    0x29a7_3ee8_8235_f52e,
    0xbb44_84e9_9c70_26b4,
    0x5f7e_4139_91d6_3983,
    0x5339_f49c_845f_8bbd,
    0xf928_3b1f_f897_ffde,
    0x0598_0fef_2f11_8b5a,
    0x0a6d_1f6d_367e_cf27,
    0xcb09_b74f_463f_669e,
    0x5fea_2d75_27ba_c7eb,
    0xe5f1_7b3d_0739_f78a,
    0x5292_ea6b_fb5f_b11f,
    0x8d5d_0856_0330_46fc,
];

/// n modulo 4 and r, for an angle at or above zero and below [`moderate_bound`].
///
/// The first subtraction is exact: n times the rounded pi/2 and the angle are multiples of the same
/// ULP, and their difference is below 1. The second is made so by its two-piece product; the third
/// piece of pi/2 is far below what is left of any float in the range.
#[inline(always)]
pub fn reduce_moderate<L: Lane>(x: L) -> (L::Int, Pair<L>) {
    let (n, whole) = round_scaled(x, L::lit(core::f64::consts::FRAC_2_PI));
    let first = n.fma(-HALF_PI.piece::<L>(0), x);
    let second = two_product(n, -HALF_PI.piece::<L>(1));
    // Which of them is larger is not known; but the first is a multiple of an ULP of the second,
    // and with that the short form is exact: what it subtracts is a multiple of that ULP, and no
    // more than 2^24 (2^53) of them.
    let sum = fast_two_sum(first, second.high);
    // The second piece is below 2^-8 of the first (of all floats of 32 bits; in 64 bits below
    // 2^-15, because no angle is nearer to a multiple of pi/2 than 2^-62), and where the first is
    // not tiny, an ULP or so. Callers need no more precision, so there is no last sum.
    let rest = n.fma(-HALF_PI.piece::<L>(2), sum.low + second.low);
    (whole, Pair { high: sum.high, low: rest })
}

/// Word number `index + offset` of `words`, for an index of as many bits as `levels`.
///
/// A tree of selects: its leaves are constants, each level halves them by one bit of the index.
#[inline(always)]
fn pick<L: Lane, const N: usize, const LEAVES: usize>(
    words: &[i64; N],
    offset: usize,
    bits: &[L::Mask],
) -> L::Int {
    let mut row = [L::Int::lit(0); LEAVES];
    for (i, leaf) in row.iter_mut().enumerate() {
        *leaf = L::Int::lit(words[i + offset]);
    }
    let mut count = LEAVES;
    for &bit in bits {
        count /= 2;
        for i in 0..count {
            row[i] = L::Int::select(bit, row[i + count], row[i]);
        }
    }
    row[0]
}

/// Unsigned a < b.
#[inline(always)]
fn below<L: Lane>(a: L::Int, b: L::Int) -> L::Mask {
    let flip = L::Int::lit(1).shl(L::BITS - 1);
    (a ^ flip).lt(b ^ flip)
}

/// n modulo 4 and r, for a finite angle from [`moderate_bound`] on.
///
/// With x = m 2^k, the window starts at the bit of 2/pi that has the weight 2 once multiplied by
/// 2^k: earlier ones only add whole turns. Three words of it, times m, modulo 2^(3 words): the top
/// word has two bits of quadrant and the rest is the fraction, of which the two top words are kept.
/// No float comes nearer to a multiple of pi/2 than 2^-32 (2^-62 in 64 bits), so enough bits stay
/// significant.
#[inline(always)]
fn reduce_large<L: Lane>(x: L) -> (L::Int, Pair<L>) {
    let width = L::BITS;
    let bits = x.to_bits();
    let exponent = bits.shr_logical(fraction_bits::<L>());
    let one = int::<L>(1).shl(fraction_bits::<L>());
    let m = (bits & (one - int::<L>(1))) | one;

    // The first exponent for which this is called begins at bit 0 of the words.
    let start = exponent - int::<L>(bias::<L>() + if width == 32 { 17 } else { 30 });
    let shift = start & int::<L>(i64::from(width) - 1);
    let index = start.shr(if width == 32 { 5 } else { 6 });
    let (a, b, c, d) = if width == 32 {
        let bits = [bit::<L>(index, 1), bit::<L>(index, 0)];
        (pick_32::<L>(0, &bits), pick_32::<L>(1, &bits), pick_32::<L>(2, &bits), pick_32::<L>(3, &bits))
    } else {
        let bits = [bit::<L>(index, 3), bit::<L>(index, 2), bit::<L>(index, 1), bit::<L>(index, 0)];
        (pick_64::<L>(0, &bits), pick_64::<L>(1, &bits), pick_64::<L>(2, &bits), pick_64::<L>(3, &bits))
    };
    let (w0, w1, w2) = (join::<L>(a, b, shift), join::<L>(b, c, shift), join::<L>(c, d, shift));

    let middle_low = m * w1;
    let middle = middle_low + m.mul_high_unsigned(w2);
    let carry = L::Int::select(below::<L>(middle, middle_low), int::<L>(1), int::<L>(0));
    let top = m * w0 + m.mul_high_unsigned(w1) + carry;

    let quadrant = (top + int::<L>(1).shl(width - 3)).shr_logical(width - 2);
    let fraction = top - quadrant.shl(width - 2);
    // The signed fraction in three pieces that are exact as floats: fraction bits plus one each, at
    // most.
    let cut = if width == 32 { 8 } else { 11 };
    let split = width - 2 * cut;
    let piece0 = fraction.shr(cut);
    let rest = fraction & (int::<L>(1).shl(cut) - int::<L>(1));
    let piece1 = rest.shl(split) | middle.shr_logical(width - split);
    let piece2 = middle & (int::<L>(1).shl(width - split) - int::<L>(1));
    let value0 = L::from_int(piece0) * L::lit(two_to_minus(width - 2 - cut));
    let value1 = L::from_int(piece1) * L::lit(two_to_minus(width - 2 + split));
    let value2 = L::from_int(piece2) * L::lit(two_to_minus(2 * width - 2));
    let sum = fast_two_sum(value0, value1);
    let turns = fast_two_sum(sum.high, sum.low + value2);

    let product = two_product(turns.high, HALF_PI.piece(0));
    let low = turns.low.fma(HALF_PI.piece(0), turns.high.fma(HALF_PI.piece(1), product.low));
    (quadrant, fast_two_sum(product.high, low))
}

// Functions, because closures would not be inlined into vector code whose values are large.

#[inline(always)]
fn int<L: Lane>(v: i64) -> L::Int {
    L::Int::lit(v)
}

/// Bit `i` of an index.
#[inline(always)]
fn bit<L: Lane>(index: L::Int, i: u32) -> L::Mask {
    !(index & int::<L>(1 << i)).eq(int::<L>(0))
}

/// Two words after one another, shifted left: the upper word.
///
/// The lower word's part is shifted by one and the rest: a shift by the full width has no meaning.
#[inline(always)]
fn join<L: Lane>(upper: L::Int, lower: L::Int, shift: L::Int) -> L::Int {
    let back = int::<L>(i64::from(L::BITS) - 1) - shift;
    upper.shl_by(shift) | lower.shr_logical(1).shr_logical_by(back)
}

#[inline(always)]
const fn two_to_minus(n: u32) -> f64 {
    exact_power(-(n as i32))
}

#[inline(always)]
fn pick_32<L: Lane>(offset: usize, bits: &[L::Mask; 2]) -> L::Int {
    pick::<L, 7, 4>(&WORDS_32, offset, bits)
}

#[inline(always)]
fn pick_64<L: Lane>(offset: usize, bits: &[L::Mask; 4]) -> L::Int {
    pick::<L, 19, 16>(&WORDS_64.map(|w| w as i64), offset, bits)
}

/// n modulo 4 and r, for a finite angle at or above zero. Infinities and NaN give anything.
#[inline(always)]
pub fn reduce<L: Lane>(x: L) -> (L::Int, Pair<L>) {
    let (n, r) = reduce_moderate(x);
    if x.are_moderate() {
        return (n, r);
    }
    let moderate = x.lt(moderate_bound());
    let (n_large, r_large) = reduce_large(x);
    let high = L::select(moderate, r.high, r_large.high);
    let low = L::select(moderate, r.low, r_large.low);
    (L::Int::select(moderate, n, n_large), Pair { high, low })
}
