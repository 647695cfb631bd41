//! Conversions to and from pairs of words. Those of f32 are integer operations on its bits.

use super::arith::{self, Pair, word};
use crate::ir::{Binary, Compare, Op, Scalar, Unary, Value};
use crate::pass::lower::writer::Writer;

/// Bits of an f32's stored fraction, and what is added to its exponent.
const FRACTION: u32 = 23;
const BIAS: u32 = 127;
const INFINITY: u32 = 0x7f80_0000;

/// A pair as another type, as an instruction.
pub fn narrow(w: &mut Writer, a: Pair, signed: bool, to: Scalar) -> Op {
    match to {
        Scalar::Bool => {
            let (any, zero) = (w.binary(Binary::Or, a[0], a[1]), word(w, a[0], 0));
            Op::Compare(Compare::Ne, any, zero)
        }
        Scalar::I32 => Op::Bitcast(Scalar::I32, a[0]),
        // The word itself: whatever moves it is an instruction.
        Scalar::U32 => {
            let zero = word(w, a[0], 0);
            Op::Binary(Binary::Or, a[0], zero)
        }
        Scalar::F32 => {
            let bits = rounded(w, a, signed);
            Op::Bitcast(Scalar::F32, bits)
        }
        Scalar::I64 | Scalar::U64 => unreachable!("the pair itself"),
        Scalar::F64 => unreachable!("targets without 64-bit integers have no f64"),
    }
}

/// Another type as a pair.
pub fn widen(w: &mut Writer, a: Value, signed: bool) -> Pair {
    match w.scalar(a) {
        Scalar::Bool => {
            let low = w.convert(a, Scalar::U32);
            [low, word(w, low, 0)]
        }
        Scalar::U32 => [a, word(w, a, 0)],
        Scalar::I32 => {
            let places = w.int(a, 31);
            let sign = w.binary(Binary::Shr, a, places);
            [w.bitcast(a, Scalar::U32), w.bitcast(sign, Scalar::U32)]
        }
        Scalar::F32 => cut(w, a, signed),
        Scalar::I64 | Scalar::U64 => unreachable!("a pair already"),
        Scalar::F64 => unreachable!("targets without 64-bit integers have no f64"),
    }
}

/// The bits of the nearest f32, ties to even.
fn rounded(w: &mut Writer, a: Pair, signed: bool) -> Value {
    let zero = word(w, a[0], 0);
    let (mut magnitude, mut sign) = (a, zero);
    if signed {
        let negative = arith::is_negative(w, a);
        let other = arith::negated(w, a);
        magnitude = arith::pick(w, negative, other, a);
        let top = word(w, a[0], 1 << 31);
        sign = w.select(negative, top, zero);
    }
    let any = w.binary(Binary::Or, magnitude[0], magnitude[1]);
    let nothing = w.compare(Compare::Eq, any, zero);
    // The highest bit to the highest place. The fraction's own highest bit adds one to the
    // exponent.
    let mut exponent = word(w, a[0], BIAS + 63 - 1);
    for step in [32, 16, 8, 4, 2, 1] {
        let top = match step {
            32 => magnitude[1],
            _ => {
                let places = word(w, a[0], 32 - step);
                w.binary(Binary::Shr, magnitude[1], places)
            }
        };
        let empty = w.compare(Compare::Eq, top, zero);
        let by = word(w, a[0], step);
        let moved = arith::shl(w, magnitude, by);
        magnitude = arith::pick(w, empty, moved, magnitude);
        let lower = w.binary(Binary::Sub, exponent, by);
        exponent = w.select(empty, lower, exponent);
    }
    let [over, mask, half, one] = [31 - FRACTION, 0xff, 0x80, 1].map(|n| word(w, a[0], n));
    let whole = w.binary(Binary::Shr, magnitude[1], over);
    let rest = w.binary(Binary::And, magnitude[1], mask);
    let below = w.compare(Compare::Ne, magnitude[0], zero);
    let (above, tie) = (w.compare(Compare::Gt, rest, half), w.compare(Compare::Eq, rest, half));
    let last = w.binary(Binary::And, whole, one);
    let odd = w.compare(Compare::Eq, last, one);
    let decides = w.binary(Binary::Or, below, odd);
    let up = w.binary(Binary::And, tie, decides);
    let up = w.binary(Binary::Or, above, up);
    let up = w.convert(up, Scalar::U32);
    let whole = w.binary(Binary::Add, whole, up);
    let places = word(w, a[0], FRACTION);
    let field = w.binary(Binary::Shl, exponent, places);
    let bits = w.binary(Binary::Add, field, whole);
    let bits = w.select(nothing, zero, bits);
    w.binary(Binary::Or, bits, sign)
}

/// An f32 cut towards zero: saturated, and 0 for NaN.
fn cut(w: &mut Writer, a: Value, signed: bool) -> Pair {
    let bits = w.bitcast(a, Scalar::U32);
    let rest = word(w, bits, i32::MAX as u32);
    let magnitude = w.binary(Binary::And, bits, rest);
    let negative = w.compare(Compare::Ne, bits, magnitude);
    let [places, mask, hidden, zero] =
        [FRACTION, (1 << FRACTION) - 1, 1 << FRACTION, 0].map(|n| word(w, bits, n));
    let field = w.binary(Binary::Shr, magnitude, places);
    let fraction = w.binary(Binary::And, magnitude, mask);
    let fraction = w.binary(Binary::Or, fraction, hidden);
    // The value is fraction * 2^(field - whole).
    let whole = word(w, bits, BIAS + FRACTION);
    let left = w.compare(Compare::Ge, field, whole);
    let up = w.binary(Binary::Sub, field, whole);
    let large = arith::shl(w, [fraction, zero], up);
    let down = w.binary(Binary::Sub, whole, field);
    let most = word(w, bits, 31);
    let down = w.binary(Binary::Min, down, most);
    let small = w.binary(Binary::Shr, fraction, down);
    let value = arith::pick(w, left, large, [small, zero]);
    let range = if signed { 63 } else { 64 };
    let limit = word(w, bits, BIAS + range);
    let beyond = w.compare(Compare::Ge, field, limit);
    let none = [zero, zero];
    let result = if signed {
        let other = arith::negated(w, value);
        let value = arith::pick(w, negative, other, value);
        let (least, greatest) = (arith::number(w, bits, 1 << 63), arith::number(w, bits, i64::MAX as u64));
        let end = arith::pick(w, negative, least, greatest);
        arith::pick(w, beyond, end, value)
    } else {
        let greatest = arith::number(w, bits, u64::MAX);
        let value = arith::pick(w, beyond, greatest, value);
        arith::pick(w, negative, none, value)
    };
    let infinity = word(w, bits, INFINITY);
    let nan = w.compare(Compare::Gt, magnitude, infinity);
    let number = w.unary(Unary::Not, nan);
    arith::pick(w, number, result, none)
}
