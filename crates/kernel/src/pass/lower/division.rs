//! Lowering of division and square root: the correctly rounded quotient of two f32, where the
//! device's may be wrong by some units in the last place.
//!
//! The device's quotient of the two fractions, as numbers of 24 bits, is a good guess. As an
//! integer of 26 bits it is off by less than a hundred, so the remainder that it leaves fits into
//! 32 bits, whatever wraps on the way: it tells by how much. What is then cut off (two bits, and
//! whether there was a remainder) rounds the result once, also into the subnormals. Everything that
//! decides is integer arithmetic; subnormal operands are brought to 24 bits by the conversion of
//! their fractions, so this does not need a device that keeps subnormals.

use super::writer::Writer;
use crate::ir::{Binary, Compare, Scalar, Unary, Value};

/// The parts of an f32's magnitude.
pub struct Parts {
    /// The magnitude's bits (u32).
    pub bits: Value,
    /// 24 bits, the highest of them set (u32); of no meaning for 0, infinity and NaN.
    pub fraction: Value,
    /// The exponent, so that the magnitude is fraction * 2^(exponent - 150) (i32).
    pub exponent: Value,
}

/// Takes a float apart.
pub fn parts(w: &mut Writer, x: Value) -> Parts {
    let all = w.bitcast(x, Scalar::U32);
    let magnitude = w.u32(all, 0x7fff_ffff);
    let bits = w.binary(Binary::And, all, magnitude);
    let hidden = w.u32(bits, 0x0080_0000);
    let mask = w.u32(bits, 0x007f_ffff);
    let subnormal = w.compare(Compare::Lt, bits, hidden);
    // A whole number below 2^23 is exact, and normal, as a float: that float's parts are the ones
    // that are asked for.
    let whole = w.convert(bits, Scalar::F32);
    let whole = w.bitcast(whole, Scalar::U32);
    let from = w.select(subnormal, whole, bits);
    let low = w.binary(Binary::And, from, mask);
    let fraction = w.binary(Binary::Or, low, hidden);
    let places = w.u32(bits, 23);
    let exponent = w.binary(Binary::Shr, from, places);
    let exponent = w.bitcast(exponent, Scalar::I32);
    let (shift, none) = (w.i32(bits, 149), w.i32(bits, 0));
    let shift = w.select(subnormal, shift, none);
    Parts { bits, fraction, exponent: w.binary(Binary::Sub, exponent, shift) }
}

/// Adds to an approximate `whole` what a remainder says, where `whole + 1` takes `unit` more; both
/// stay below 2^31.
fn correct(w: &mut Writer, whole: Value, rest: Value, unit: Value) -> (Value, Value) {
    // The first step is a guess again, the others take what is left of it.
    let (r, u) = (w.convert(rest, Scalar::F32), w.convert(unit, Scalar::F32));
    let guess = w.binary(Binary::Div, r, u);
    let guess = w.unary(Unary::Floor, guess);
    let steps = w.convert(guess, Scalar::I32);
    let taken = w.binary(Binary::Mul, steps, unit);
    let mut whole = w.binary(Binary::Add, whole, steps);
    let mut rest = w.binary(Binary::Sub, rest, taken);
    let (zero, one) = (w.int(rest, 0), w.int(rest, 1));
    for _ in 0..2 {
        let below = w.compare(Compare::Lt, rest, zero);
        let (less, more) = (w.binary(Binary::Sub, whole, one), w.binary(Binary::Add, rest, unit));
        whole = w.select(below, less, whole);
        rest = w.select(below, more, rest);
        let above = w.compare(Compare::Ge, rest, unit);
        let (more, less) = (w.binary(Binary::Add, whole, one), w.binary(Binary::Sub, rest, unit));
        whole = w.select(above, more, whole);
        rest = w.select(above, less, rest);
    }
    (whole, rest)
}

/// x / y, correctly rounded.
pub fn divide(w: &mut Writer, x: Value, y: Value) -> Value {
    let (p, q) = (parts(w, x), parts(w, y));
    // The quotient has 26 bits: x is moved left by 25 places, or by 26 if its fraction is the
    // smaller.
    let smaller = w.compare(Compare::Lt, p.fraction, q.fraction);
    let (s25, s26) = (w.u32(p.bits, 25), w.u32(p.bits, 26));
    let places = w.select(smaller, s26, s25);
    let moved = w.binary(Binary::Shl, p.fraction, places);
    let (a, b) = (w.convert(p.fraction, Scalar::F32), w.convert(q.fraction, Scalar::F32));
    let guess = w.binary(Binary::Div, a, b);
    let (f25, f26) = (w.f32(p.bits, 33_554_432.0), w.f32(p.bits, 67_108_864.0));
    let scale = w.select(smaller, f26, f25);
    let guess = w.binary(Binary::Mul, guess, scale);
    let guess = w.convert(guess, Scalar::U32);
    let product = w.binary(Binary::Mul, guess, q.fraction);
    let rest = w.binary(Binary::Sub, moved, product);
    let (guess, rest, unit) = (w.signed(guess), w.signed(rest), w.signed(q.fraction));
    let (whole, rest) = correct(w, guess, rest, unit);

    // value = whole * 2^-places * 2^(difference of exponents), and whole has its highest bit at 25.
    let places = w.signed(places);
    let difference = w.binary(Binary::Sub, p.exponent, q.exponent);
    let bias = w.i32(p.bits, 127 + 25);
    let exponent = w.binary(Binary::Add, difference, bias);
    let exponent = w.binary(Binary::Sub, exponent, places);
    let bits = round(w, whole, rest, exponent, 2);

    // 0, infinity and NaN.
    let (zero, infinity) = (w.u32(p.bits, 0), w.u32(p.bits, 0x7f80_0000));
    let is = |w: &mut Writer, v: Value, c: Value| w.compare(Compare::Eq, v, c);
    let (x0, y0) = (is(w, p.bits, zero), is(w, q.bits, zero));
    let (xi, yi) = (is(w, p.bits, infinity), is(w, q.bits, infinity));
    let none = w.binary(Binary::Or, x0, yi);
    let bits = w.select(none, zero, bits);
    let much = w.binary(Binary::Or, y0, xi);
    let bits = w.select(much, infinity, bits);
    let (bx, by) = (w.bitcast(x, Scalar::U32), w.bitcast(y, Scalar::U32));
    let signs = w.binary(Binary::Xor, bx, by);
    let top = w.u32(p.bits, 0x8000_0000);
    let sign = w.binary(Binary::And, signs, top);
    let bits = w.binary(Binary::Or, bits, sign);
    let both0 = w.binary(Binary::And, x0, y0);
    let both_i = w.binary(Binary::And, xi, yi);
    let nan_x = w.compare(Compare::Gt, p.bits, infinity);
    let nan_y = w.compare(Compare::Gt, q.bits, infinity);
    let undefined = w.binary(Binary::Or, both0, both_i);
    let nan = w.binary(Binary::Or, nan_x, nan_y);
    let nan = w.binary(Binary::Or, nan, undefined);
    let quiet = w.u32(p.bits, 0x7fc0_0000);
    let bits = w.select(nan, quiet, bits);
    w.bitcast(bits, Scalar::F32)
}

/// The square root, correctly rounded.
///
/// The fraction is moved left so far that its exponent becomes even and its root has 25 bits: 24,
/// and one to round by.
pub fn root(w: &mut Writer, x: Value) -> Value {
    let p = parts(w, x);
    // magnitude = fraction * 2^(exponent - 150): with an even exponent 26 places leave an even one,
    // with an odd one 25.
    let one = w.i32(p.bits, 1);
    let odd = w.binary(Binary::And, p.exponent, one);
    let (most, bias) = (w.i32(p.bits, 26), w.i32(p.bits, 127));
    // 2^23 <= fraction < 2^24, and 2^48 <= fraction * 2^places < 2^50.
    let even_places = w.binary(Binary::Sub, most, odd);
    let places = w.unsigned(even_places);
    let moved = w.binary(Binary::Shl, p.fraction, places);
    let exact = w.convert(p.fraction, Scalar::F32);
    let (f25, f26) = (w.f32(p.bits, 33_554_432.0), w.f32(p.bits, 67_108_864.0));
    let is_odd = w.compare(Compare::Eq, odd, one);
    let scale = w.select(is_odd, f25, f26);
    let scaled = w.binary(Binary::Mul, exact, scale);
    let guess = w.unary(Unary::Sqrt, scaled);
    let mut whole = w.convert(guess, Scalar::I32);
    let two = w.i32(p.bits, 2);
    let moved = w.signed(moved);
    // What is left of the square; it wraps on the way, and fits in the end.
    let left = |w: &mut Writer, whole: Value| {
        let square = w.binary(Binary::Mul, whole, whole);
        w.binary(Binary::Sub, moved, square)
    };
    let rest = left(w, whole);
    let twice = w.binary(Binary::Mul, whole, two);
    let (r, t) = (w.convert(rest, Scalar::F32), w.convert(twice, Scalar::F32));
    let guess = w.binary(Binary::Div, r, t);
    let guess = w.unary(Unary::Floor, guess);
    let steps = w.convert(guess, Scalar::I32);
    whole = w.binary(Binary::Add, whole, steps);
    let zero = w.i32(p.bits, 0);
    for _ in 0..2 {
        let rest = left(w, whole);
        let below = w.compare(Compare::Lt, rest, zero);
        let less = w.binary(Binary::Sub, whole, one);
        whole = w.select(below, less, whole);
        let rest = left(w, whole);
        let twice = w.binary(Binary::Mul, whole, two);
        let above = w.compare(Compare::Gt, rest, twice);
        let more = w.binary(Binary::Add, whole, one);
        whole = w.select(above, more, whole);
    }
    let rest = left(w, whole);
    // value = whole * 2^((exponent - 150 - places) / 2), and whole has its highest bit at 24.
    let (b150, b24) = (w.i32(p.bits, 150), w.i32(p.bits, 24));
    let e = w.binary(Binary::Sub, p.exponent, b150);
    let e = w.binary(Binary::Sub, e, even_places);
    let e = w.binary(Binary::Shr, e, one);
    let e = w.binary(Binary::Add, e, b24);
    let exponent = w.binary(Binary::Add, e, bias);
    let bits = round(w, whole, rest, exponent, 1);

    let (zero, infinity) = (w.u32(p.bits, 0), w.u32(p.bits, 0x7f80_0000));
    let all = w.bitcast(x, Scalar::U32);
    // Zeros of both signs, and +infinity, are their own roots.
    let none = w.compare(Compare::Eq, p.bits, zero);
    let much = w.compare(Compare::Eq, all, infinity);
    let itself = w.binary(Binary::Or, none, much);
    let bits = w.select(itself, all, bits);
    let nan = w.compare(Compare::Gt, p.bits, infinity);
    let top = w.u32(p.bits, 0x8000_0000);
    let negative = w.compare(Compare::Gt, all, top);
    let nan = w.binary(Binary::Or, nan, negative);
    let quiet = w.u32(p.bits, 0x7fc0_0000);
    let bits = w.select(nan, quiet, bits);
    w.bitcast(bits, Scalar::F32)
}

/// The bits of an f32 from a whole number of 24 and `extra` bits (i32), whether something is left
/// of it (i32, not 0), and the biased exponent of its highest bit (i32).
fn round(w: &mut Writer, whole: Value, rest: Value, exponent: Value, extra: u32) -> Value {
    let (zero, one) = (w.int(whole, 0), w.int(whole, 1));
    // Below the normal numbers, more bits are cut off; 31 and more leave nothing, as 28 do.
    let normal = w.compare(Compare::Gt, exponent, zero);
    let deficit = w.binary(Binary::Sub, one, exponent);
    let most = w.i32(whole, 28 - i64::from(extra));
    let deficit = w.binary(Binary::Min, deficit, most);
    let deficit = w.select(normal, zero, deficit);
    let extra = w.i32(whole, i64::from(extra));
    let cut = w.binary(Binary::Add, extra, deficit);
    let kept = w.binary(Binary::Shr, whole, cut);
    let back = w.binary(Binary::Shl, kept, cut);
    let lost = w.binary(Binary::Sub, whole, back);
    let before = w.binary(Binary::Sub, cut, one);
    let half = w.binary(Binary::Shl, one, before);
    let above = w.compare(Compare::Gt, lost, half);
    let tie = w.compare(Compare::Eq, lost, half);
    let inexact = w.compare(Compare::Ne, rest, zero);
    let last = w.binary(Binary::And, kept, one);
    let odd = w.compare(Compare::Eq, last, one);
    let up = w.binary(Binary::Or, inexact, odd);
    let up = w.binary(Binary::And, tie, up);
    let up = w.binary(Binary::Or, above, up);
    let more = w.binary(Binary::Add, kept, one);
    let kept = w.select(up, more, kept);
    // The fraction's highest bit adds 1 to the exponent, and so does a carry out of it, up to
    // infinity.
    let places = w.i32(whole, 23);
    let below = w.binary(Binary::Sub, exponent, one);
    let below = w.binary(Binary::Max, below, zero);
    let large = w.i32(whole, 254);
    let overflows = w.compare(Compare::Gt, exponent, large);
    let below = w.binary(Binary::Min, below, large);
    let high = w.binary(Binary::Shl, below, places);
    let bits = w.binary(Binary::Add, high, kept);
    let infinity = w.i32(whole, 0x7f80_0000);
    let bits = w.select(overflows, infinity, bits);
    w.unsigned(bits)
}
