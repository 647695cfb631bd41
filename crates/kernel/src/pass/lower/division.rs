//! Lowering of division and square root: the correctly rounded quotient of two floats, where the
//! device's may be wrong.
//!
//! A quotient of the two fractions, as numbers of 24 bits (of f64: 53), is a good guess. As an
//! integer of two bits more it is off by less than a hundred, so the remainder that it leaves fits
//! into a word, whatever wraps on the way: it tells by how much. What is then cut off (two bits,
//! and whether there was a remainder) rounds the result once, also into the subnormals. Everything
//! that decides is integer arithmetic; subnormal operands are brought to 24 bits by the conversion
//! of their fractions, so this does not need a device that keeps subnormals.
//!
//! For f32 the guess is the device's own, wrong by some units in the last place. For f64 no bound
//! of the error is known, so it begins with f32's, which has 22 good bits at least, and two steps
//! of Newton's iteration make more than 50 of them (Heron's, for the root).

use super::writer::Writer;
use crate::ir::{Binary, Compare, Constant, Scalar, Unary, Value};

/// A float type and the words that it is taken apart into.
#[derive(Clone, Copy)]
pub struct Format {
    float: Scalar,
    word: Scalar,
    /// Exponents, and what remainders are computed in.
    signed: Scalar,
    /// Bits of a word.
    bits: i64,
    /// Bits of a fraction, with the one that is not stored.
    fraction: i64,
    /// What is added to an exponent that is stored.
    bias: i64,
}

/// The format of f32.
pub const F32: Format =
    Format { float: Scalar::F32, word: Scalar::U32, signed: Scalar::I32, bits: 32, fraction: 24, bias: 127 };
/// The format of f64.
pub const F64: Format =
    Format { float: Scalar::F64, word: Scalar::U64, signed: Scalar::I64, bits: 64, fraction: 53, bias: 1023 };

impl Format {
    /// The format of a float type.
    pub fn of(s: Scalar) -> Format {
        if s == Scalar::F64 { F64 } else { F32 }
    }
    fn word(self, w: &mut Writer, like: Value, v: u64) -> Value {
        w.number(like, Constant { scalar: self.word, bits: v })
    }
    fn int(self, w: &mut Writer, like: Value, v: i64) -> Value {
        w.number(like, Constant::int(self.signed, v))
    }
    /// 2^e
    fn power(self, w: &mut Writer, like: Value, e: i64) -> Value {
        w.number(like, Constant::float(self.float, 2f64.powi(e as i32)))
    }
    fn hidden(self) -> u64 {
        1 << (self.fraction - 1)
    }
    fn top(self) -> u64 {
        1 << (self.bits - 1)
    }
    /// The bits of infinity.
    fn infinity(self) -> u64 {
        Constant::float(self.float, f64::INFINITY).bits
    }
    /// The bits of NaN.
    fn quiet(self) -> u64 {
        Constant::float(self.float, f64::NAN).bits
    }
}

/// The parts of a float's magnitude.
struct Parts {
    /// The magnitude's bits (a word).
    bits: Value,
    /// As many bits as a fraction has, the highest of them set (a word); of no meaning for 0,
    /// infinity and NaN.
    fraction: Value,
    /// The exponent, so that the magnitude is fraction * 2^(exponent - bias - fraction's bits + 1)
    /// (signed).
    exponent: Value,
}

/// Takes a float apart.
fn parts(w: &mut Writer, x: Value, f: Format) -> Parts {
    let all = w.bitcast(x, f.word);
    let magnitude = f.word(w, all, f.top() - 1);
    let bits = w.binary(Binary::And, all, magnitude);
    let hidden = f.word(w, bits, f.hidden());
    let mask = f.word(w, bits, f.hidden() - 1);
    let subnormal = w.compare(Compare::Lt, bits, hidden);
    // A whole number below 2^23 (2^52) is exact, and normal, as a float: that float's parts are the
    // ones that are asked for.
    let whole = w.convert(bits, f.float);
    let whole = w.bitcast(whole, f.word);
    let from = w.select(subnormal, whole, bits);
    let low = w.binary(Binary::And, from, mask);
    let fraction = w.binary(Binary::Or, low, hidden);
    let places = f.word(w, bits, f.fraction as u64 - 1);
    let exponent = w.binary(Binary::Shr, from, places);
    let exponent = w.bitcast(exponent, f.signed);
    let (shift, none) = (f.int(w, bits, f.bias + f.fraction - 2), f.int(w, bits, 0));
    let shift = w.select(subnormal, shift, none);
    Parts { bits, fraction, exponent: w.binary(Binary::Sub, exponent, shift) }
}

/// Adds to an approximate `whole` what a remainder says, where `whole + 1` takes `unit` more; both
/// stay below the half of what a word holds.
fn correct(w: &mut Writer, whole: Value, rest: Value, unit: Value, f: Format) -> (Value, Value) {
    // The first step is a guess again, the others take what is left of it.
    let (r, u) = (w.convert(rest, f.float), w.convert(unit, f.float));
    let guess = w.binary(Binary::Div, r, u);
    let guess = w.unary(Unary::Floor, guess);
    let steps = w.convert(guess, f.signed);
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

/// About a / b, of fractions.
fn near_quotient(w: &mut Writer, a: Value, b: Value, f: Format) -> Value {
    if f.float == Scalar::F32 {
        return w.binary(Binary::Div, a, b);
    }
    let narrow = w.convert(b, Scalar::F32);
    let one = w.f32(narrow, 1.0);
    let guess = w.binary(Binary::Div, one, narrow);
    let mut inverse = w.convert(guess, f.float);
    let two = f.power(w, b, 1);
    for _ in 0..2 {
        let product = w.binary(Binary::Mul, b, inverse);
        let off = w.binary(Binary::Sub, two, product);
        inverse = w.binary(Binary::Mul, inverse, off);
    }
    w.binary(Binary::Mul, a, inverse)
}

/// About the root of a normal number below 2^126.
fn near_root(w: &mut Writer, x: Value, f: Format) -> Value {
    if f.float == Scalar::F32 {
        return w.unary(Unary::Sqrt, x);
    }
    let narrow = w.convert(x, Scalar::F32);
    let guess = w.unary(Unary::Sqrt, narrow);
    let mut root = w.convert(guess, f.float);
    let half = f.power(w, x, -1);
    for _ in 0..2 {
        let other = w.binary(Binary::Div, x, root);
        let sum = w.binary(Binary::Add, root, other);
        root = w.binary(Binary::Mul, sum, half);
    }
    root
}

/// x / y, correctly rounded.
pub fn divide(w: &mut Writer, x: Value, y: Value) -> Value {
    let f = Format::of(w.scalar(x));
    let (p, q) = (parts(w, x, f), parts(w, y, f));
    // The quotient has two bits more than a fraction: x is moved left by one place more than a
    // fraction has, or by two if its fraction is the smaller.
    let smaller = w.compare(Compare::Lt, p.fraction, q.fraction);
    let (few, more) = (f.word(w, p.bits, f.fraction as u64 + 1), f.word(w, p.bits, f.fraction as u64 + 2));
    let places = w.select(smaller, more, few);
    let moved = w.binary(Binary::Shl, p.fraction, places);
    let (a, b) = (w.convert(p.fraction, f.float), w.convert(q.fraction, f.float));
    let guess = near_quotient(w, a, b, f);
    let (few, more) = (f.power(w, p.bits, f.fraction + 1), f.power(w, p.bits, f.fraction + 2));
    let scale = w.select(smaller, more, few);
    let guess = w.binary(Binary::Mul, guess, scale);
    let guess = w.convert(guess, f.word);
    let product = w.binary(Binary::Mul, guess, q.fraction);
    let rest = w.binary(Binary::Sub, moved, product);
    let [guess, rest, unit] = [guess, rest, q.fraction].map(|v| w.bitcast(v, f.signed));
    let (whole, rest) = correct(w, guess, rest, unit, f);

    // value = whole * 2^-places * 2^(difference of exponents), and whole has its highest bit one
    // above a fraction's.
    let places = w.bitcast(places, f.signed);
    let difference = w.binary(Binary::Sub, p.exponent, q.exponent);
    let bias = f.int(w, p.bits, f.bias + f.fraction + 1);
    let exponent = w.binary(Binary::Add, difference, bias);
    let exponent = w.binary(Binary::Sub, exponent, places);
    let bits = round(w, (whole, rest), exponent, 2, f);

    // 0, infinity and NaN.
    let (zero, infinity) = (f.word(w, p.bits, 0), f.word(w, p.bits, f.infinity()));
    let is = |w: &mut Writer, v: Value, c: Value| w.compare(Compare::Eq, v, c);
    let (x0, y0) = (is(w, p.bits, zero), is(w, q.bits, zero));
    let (xi, yi) = (is(w, p.bits, infinity), is(w, q.bits, infinity));
    let none = w.binary(Binary::Or, x0, yi);
    let bits = w.select(none, zero, bits);
    let much = w.binary(Binary::Or, y0, xi);
    let bits = w.select(much, infinity, bits);
    let (bx, by) = (w.bitcast(x, f.word), w.bitcast(y, f.word));
    let signs = w.binary(Binary::Xor, bx, by);
    let top = f.word(w, p.bits, f.top());
    let sign = w.binary(Binary::And, signs, top);
    let bits = w.binary(Binary::Or, bits, sign);
    let both0 = w.binary(Binary::And, x0, y0);
    let both_i = w.binary(Binary::And, xi, yi);
    let nan_x = w.compare(Compare::Gt, p.bits, infinity);
    let nan_y = w.compare(Compare::Gt, q.bits, infinity);
    let undefined = w.binary(Binary::Or, both0, both_i);
    let nan = w.binary(Binary::Or, nan_x, nan_y);
    let nan = w.binary(Binary::Or, nan, undefined);
    let quiet = f.word(w, p.bits, f.quiet());
    let bits = w.select(nan, quiet, bits);
    w.bitcast(bits, f.float)
}

/// The square root, correctly rounded.
///
/// The fraction is moved left so far that its exponent becomes even and its root has one bit more
/// than a fraction, to round by.
pub fn root(w: &mut Writer, x: Value) -> Value {
    let f = Format::of(w.scalar(x));
    let p = parts(w, x, f);
    // magnitude = fraction * 2^(exponent - bias - fraction's bits + 1): of f32 with an even
    // exponent 26 places leave an even one, with an odd one 25; of f64, 55 and 54.
    let most = f.fraction + 2;
    let one = f.int(w, p.bits, 1);
    let odd = w.binary(Binary::And, p.exponent, one);
    let most_places = f.int(w, p.bits, most);
    // Of f32, 2^23 <= fraction < 2^24, and 2^48 <= fraction * 2^places < 2^50.
    let even_places = w.binary(Binary::Sub, most_places, odd);
    let places = w.bitcast(even_places, f.word);
    let moved = w.binary(Binary::Shl, p.fraction, places);
    let exact = w.convert(p.fraction, f.float);
    let (less, more) = (f.power(w, p.bits, most - 1), f.power(w, p.bits, most));
    let is_odd = w.compare(Compare::Eq, odd, one);
    let scale = w.select(is_odd, less, more);
    let scaled = w.binary(Binary::Mul, exact, scale);
    let guess = near_root(w, scaled, f);
    let mut whole = w.convert(guess, f.signed);
    let two = f.int(w, p.bits, 2);
    let moved = w.bitcast(moved, f.signed);
    // What is left of the square; it wraps on the way, and fits in the end.
    let left = |w: &mut Writer, whole: Value| {
        let square = w.binary(Binary::Mul, whole, whole);
        w.binary(Binary::Sub, moved, square)
    };
    let rest = left(w, whole);
    let twice = w.binary(Binary::Mul, whole, two);
    let (r, t) = (w.convert(rest, f.float), w.convert(twice, f.float));
    let guess = w.binary(Binary::Div, r, t);
    let guess = w.unary(Unary::Floor, guess);
    let steps = w.convert(guess, f.signed);
    whole = w.binary(Binary::Add, whole, steps);
    let zero = f.int(w, p.bits, 0);
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
    // value = whole * 2^((exponent - bias - fraction's bits + 1 - places) / 2), and whole has its
    // highest bit where a fraction of one bit more has it.
    let (shift, bits) = (f.int(w, p.bits, f.bias + f.fraction - 1), f.int(w, p.bits, f.fraction));
    let e = w.binary(Binary::Sub, p.exponent, shift);
    let e = w.binary(Binary::Sub, e, even_places);
    let e = w.binary(Binary::Shr, e, one);
    let e = w.binary(Binary::Add, e, bits);
    let bias = f.int(w, p.bits, f.bias);
    let exponent = w.binary(Binary::Add, e, bias);
    let bits = round(w, (whole, rest), exponent, 1, f);

    let (zero, infinity) = (f.word(w, p.bits, 0), f.word(w, p.bits, f.infinity()));
    let all = w.bitcast(x, f.word);
    // Zeros of both signs, and +infinity, are their own roots.
    let none = w.compare(Compare::Eq, p.bits, zero);
    let much = w.compare(Compare::Eq, all, infinity);
    let itself = w.binary(Binary::Or, none, much);
    let bits = w.select(itself, all, bits);
    let nan = w.compare(Compare::Gt, p.bits, infinity);
    let top = f.word(w, p.bits, f.top());
    let negative = w.compare(Compare::Gt, all, top);
    let nan = w.binary(Binary::Or, nan, negative);
    let quiet = f.word(w, p.bits, f.quiet());
    let bits = w.select(nan, quiet, bits);
    w.bitcast(bits, f.float)
}

/// The bits of a float from a whole number that has `extra` bits more than a fraction and whether
/// something is left of it (not 0), and the biased exponent of its highest bit; all are signed.
fn round(w: &mut Writer, (whole, rest): (Value, Value), exponent: Value, extra: i64, f: Format) -> Value {
    let (zero, one) = (w.int(whole, 0), w.int(whole, 1));
    // Below the normal numbers, more bits are cut off; as many as there are and more leave nothing.
    let normal = w.compare(Compare::Gt, exponent, zero);
    let deficit = w.binary(Binary::Sub, one, exponent);
    let most = f.int(w, whole, f.fraction + 4 - extra);
    let deficit = w.binary(Binary::Min, deficit, most);
    let deficit = w.select(normal, zero, deficit);
    let extra = f.int(w, whole, extra);
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
    let places = f.int(w, whole, f.fraction - 1);
    let below = w.binary(Binary::Sub, exponent, one);
    let below = w.binary(Binary::Max, below, zero);
    let large = f.int(w, whole, 2 * f.bias);
    let overflows = w.compare(Compare::Gt, exponent, large);
    let below = w.binary(Binary::Min, below, large);
    let high = w.binary(Binary::Shl, below, places);
    let bits = w.binary(Binary::Add, high, kept);
    let infinity = f.int(w, whole, f.infinity() as i64);
    let bits = w.select(overflows, infinity, bits);
    w.bitcast(bits, f.word)
}
