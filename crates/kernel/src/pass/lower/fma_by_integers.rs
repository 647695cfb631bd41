//! Lowering of a fused multiply-add in integers, where the device has none and nothing wider to
//! build it from: of f64, and of f32 where there is no f64.
//!
//! The product of two fractions (53 bits each, or 24) and the third fraction are placed into two
//! words (64 bits each, or 32), a [`Pair`], with their highest bits aligned near the top, and the
//! one with the smaller exponent is shifted right. The bits that are shifted out are kept as a
//! sticky bit: the other one has [`Format::spare`] zeros there at least, so bits are only shifted
//! out where the difference cannot cancel, and then the sticky bit is far below the one at which
//! the sum is rounded.
//!
//! Operands that are not finite, and zero factors, take no part in this: what becomes of them is
//! told by their bits. But for conversions of whole numbers below 2^24 (2^53) to the float type,
//! nothing here is arithmetic on floats, so it does not need a device that keeps subnormals, or
//! NaN.

use super::writer::Writer;
use crate::ir::{Binary, Compare, Constant, Scalar, Value};

/// A float type and the words that it is taken apart into.
#[derive(Clone, Copy)]
struct Format {
    float: Scalar,
    word: Scalar,
    /// Exponents.
    signed: Scalar,
    /// Bits of a word.
    bits: u64,
    /// Bits of a fraction, with the one that is not stored.
    fraction: u64,
    /// What is added to an exponent that is stored.
    bias: i64,
    /// Places by which a product is moved left in a pair: its highest bit is then the third or
    /// fourth from the top, which leaves room for the sum.
    spare: u64,
}

const F64: Format = Format {
    float: Scalar::F64,
    word: Scalar::U64,
    signed: Scalar::I64,
    bits: 64,
    fraction: 53,
    bias: 1023,
    spare: 20,
};
const F32: Format = Format {
    float: Scalar::F32,
    word: Scalar::U32,
    signed: Scalar::I32,
    bits: 32,
    fraction: 24,
    bias: 127,
    spare: 14,
};

impl Format {
    /// Places by which a lone fraction is moved left, so that it stands where a product does.
    fn lone(self) -> u64 {
        self.fraction - 1 + self.spare
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
    fn int(self, v: i64) -> Constant {
        Constant::int(self.signed, v)
    }
}

/// Two words.
#[derive(Clone, Copy)]
struct Pair {
    high: Value,
    low: Value,
}

/// A writer with short names for what is done to words.
struct Words<'a> {
    w: &'a mut Writer,
    like: Value,
    f: Format,
}

impl Words<'_> {
    fn int(&mut self, v: u64) -> Value {
        self.w.number(self.like, Constant { scalar: self.f.word, bits: v })
    }
    fn op(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.w.binary(op, a, b)
    }
    fn left(&mut self, a: Value, by: u64) -> Value {
        let by = self.int(by);
        self.op(Binary::Shl, a, by)
    }
    fn right(&mut self, a: Value, by: u64) -> Value {
        let by = self.int(by);
        self.op(Binary::Shr, a, by)
    }
    fn mask(&mut self, a: Value, mask: u64) -> Value {
        let mask = self.int(mask);
        self.op(Binary::And, a, mask)
    }
    fn is(&mut self, op: Compare, a: Value, b: u64) -> Value {
        let b = self.int(b);
        self.w.compare(op, a, b)
    }
    /// 1 where a condition is true, else 0.
    fn one_if(&mut self, c: Value) -> Value {
        self.w.convert(c, self.f.word)
    }
    fn pick(&mut self, c: Value, a: Pair, b: Pair) -> Pair {
        Pair { high: self.w.select(c, a.high, b.high), low: self.w.select(c, a.low, b.low) }
    }
    fn add(&mut self, a: Pair, b: Pair) -> Pair {
        let low = self.op(Binary::Add, a.low, b.low);
        let carry = self.w.compare(Compare::Lt, low, a.low);
        let carry = self.one_if(carry);
        let high = self.op(Binary::Add, a.high, b.high);
        Pair { high: self.op(Binary::Add, high, carry), low }
    }
    fn sub(&mut self, a: Pair, b: Pair) -> Pair {
        let low = self.op(Binary::Sub, a.low, b.low);
        let borrow = self.w.compare(Compare::Lt, a.low, b.low);
        let borrow = self.one_if(borrow);
        let high = self.op(Binary::Sub, a.high, b.high);
        Pair { high: self.op(Binary::Sub, high, borrow), low }
    }
    /// Moved right by less than two words' places; the last bit is set if something other than 0
    /// falls out.
    fn sticky(&mut self, a: Pair, by: Value) -> Pair {
        // Two moves, by a whole word and by less than one.
        let bits = self.f.bits;
        let word = self.is(Compare::Ge, by, bits);
        let zero = self.int(0);
        let lost = self.w.select(word, a.low, zero);
        let a = self.pick(word, Pair { high: zero, low: a.high }, a);
        let by = self.mask(by, bits - 1);
        // A word less `by` places left, in two steps because by may be 0.
        let most = self.int(bits - 1);
        let rest = self.op(Binary::Sub, most, by);
        let up = |s: &mut Self, v: Value| {
            let v = s.left(v, 1);
            s.op(Binary::Shl, v, rest)
        };
        let (from_high, from_low) = (up(self, a.high), up(self, a.low));
        let lost = self.op(Binary::Or, lost, from_low);
        let lost = self.w.compare(Compare::Ne, lost, zero);
        let lost = self.one_if(lost);
        let low = self.op(Binary::Shr, a.low, by);
        let low = self.op(Binary::Or, low, from_high);
        Pair { high: self.op(Binary::Shr, a.high, by), low: self.op(Binary::Or, low, lost) }
    }
}

/// A number: if it is finite and not 0, fraction * 2^exponent, all bits of the fraction in use.
struct Parts {
    /// The bits (a word).
    all: Value,
    /// A word.
    fraction: Value,
    /// Signed. Of 0 less than that of any other number.
    exponent: Value,
    /// 1 for negative ones (a word).
    sign: Value,
    /// Is it 0?
    zero: Value,
    /// Is it infinite or NaN?
    wild: Value,
    /// Is it NaN?
    nan: Value,
}

fn parts(w: &mut Writer, f: Format, x: Value) -> Parts {
    let all = w.bitcast(x, f.word);
    let mut s = Words { like: x, w, f };
    let bits = s.mask(all, f.top() - 1);
    let subnormal = s.is(Compare::Lt, bits, f.hidden());
    // A whole number is normal as a float: that float's fraction is the one that is asked for.
    let whole = s.w.convert(bits, f.float);
    let whole = s.w.bitcast(whole, f.word);
    let from = s.w.select(subnormal, whole, bits);
    let low = s.mask(from, f.hidden() - 1);
    let hidden = s.int(f.hidden());
    let fraction = s.op(Binary::Or, low, hidden);
    let field = s.right(from, f.fraction - 1);
    let sign = s.right(all, f.bits - 1);
    let zero = s.is(Compare::Eq, bits, 0);
    let wild = s.is(Compare::Ge, bits, f.infinity());
    let nan = s.is(Compare::Gt, bits, f.infinity());
    let exponent = w.convert(field, f.signed);
    let one = f.bias + f.fraction as i64 - 1;
    let up = f.bias + f.fraction as i64 - 2;
    let (normal, moved) = (w.number(x, f.int(one)), w.number(x, f.int(one + up)));
    let bias = w.select(subnormal, moved, normal);
    let exponent = w.binary(Binary::Sub, exponent, bias);
    Parts { all, fraction, exponent, sign, zero, wild, nan }
}

/// The product of two fractions.
fn product(s: &mut Words<'_>, a: Value, b: Value) -> Pair {
    let half = s.f.bits / 2;
    let [a0, b0] = [a, b].map(|v| s.mask(v, (1 << half) - 1));
    let [a1, b1] = [a, b].map(|v| s.right(v, half));
    let low = s.op(Binary::Mul, a0, b0);
    let (x, y) = (s.op(Binary::Mul, a1, b0), s.op(Binary::Mul, a0, b1));
    let middle = s.op(Binary::Add, x, y);
    let high = s.op(Binary::Mul, a1, b1);
    let (up, down) = (s.right(middle, half), s.left(middle, half));
    let outer = Pair { high, low };
    s.add(outer, Pair { high: up, low: down })
}

/// `a * b + c`, rounded once.
pub fn fused(w: &mut Writer, a: Value, b: Value, c: Value) -> Value {
    let f = if w.scalar(a) == Scalar::F64 { F64 } else { F32 };
    let (p, q, r) = (parts(w, f, a), parts(w, f, b), parts(w, f, c));
    let exponent = w.binary(Binary::Add, p.exponent, q.exponent);
    let places = w.number(a, f.int(f.spare as i64));
    let exponent_p = w.binary(Binary::Sub, exponent, places);
    let places = w.number(a, f.int(f.lone() as i64));
    let exponent_c = w.binary(Binary::Sub, r.exponent, places);
    let apart = w.binary(Binary::Sub, exponent_p, exponent_c);
    let none = w.number(a, f.int(0));
    let product_is_low = w.compare(Compare::Lt, apart, none);
    let back = w.binary(Binary::Sub, none, apart);
    let far = w.select(product_is_low, back, apart);
    let most = w.number(a, f.int(2 * f.bits as i64 - 1));
    let beyond = w.compare(Compare::Gt, far, most);
    let far = w.select(beyond, most, far);
    let far = w.convert(far, f.word);
    let exponent = w.select(product_is_low, exponent_c, exponent_p);

    let mut s = Words { like: a, w, f };
    let m = product(&mut s, p.fraction, q.fraction);
    let (up, over) = (s.left(m.high, f.spare), s.right(m.low, f.bits - f.spare));
    let m = Pair { high: s.op(Binary::Or, up, over), low: s.left(m.low, f.spare) };
    let zero = s.int(0);
    // Of a third number that is 0 there is nothing, and it stands so low that no bit of the product
    // falls out that would be in the result.
    let third = s.w.select(r.zero, zero, r.fraction);
    let n = Pair { high: s.left(third, f.lone() - f.bits), low: zero };
    let (small, large) = (s.pick(product_is_low, m, n), s.pick(product_is_low, n, m));
    let small = s.sticky(small, far);
    let sign_p = s.op(Binary::Xor, p.sign, q.sign);
    let sign_large = s.w.select(product_is_low, r.sign, sign_p);
    let sign_small = s.w.select(product_is_low, sign_p, r.sign);
    let opposite = s.w.compare(Compare::Ne, sign_large, sign_small);
    let (sum, less, more) = (s.add(large, small), s.sub(large, small), s.sub(small, large));
    // Equal exponents do not say which is the larger.
    let high_below = s.w.compare(Compare::Lt, large.high, small.high);
    let high_equal = s.w.compare(Compare::Eq, large.high, small.high);
    let low_below = s.w.compare(Compare::Lt, large.low, small.low);
    let low_decides = s.op(Binary::And, high_equal, low_below);
    let swapped = s.op(Binary::Or, high_below, low_decides);
    let difference = s.pick(swapped, more, less);
    let sign_difference = s.w.select(swapped, sign_small, sign_large);
    let mut total = s.pick(opposite, difference, sum);
    let sign = s.w.select(opposite, sign_difference, sign_large);
    let either = s.op(Binary::Or, total.high, total.low);
    let nothing = s.w.compare(Compare::Eq, either, zero);

    // The highest bit to the highest place.
    let mut exponent = exponent;
    for step in [64u64, 32, 16, 8, 4, 2, 1].into_iter().filter(|&step| step <= f.bits) {
        let top = if step == f.bits { total.high } else { s.right(total.high, f.bits - step) };
        let empty = s.w.compare(Compare::Eq, top, zero);
        let moved = if step == f.bits {
            Pair { high: total.low, low: zero }
        } else {
            let (up, over) = (s.left(total.high, step), s.right(total.low, f.bits - step));
            Pair { high: s.op(Binary::Or, up, over), low: s.left(total.low, step) }
        };
        total = s.pick(empty, moved, total);
        let by = s.w.number(a, f.int(step as i64));
        let lower = s.w.binary(Binary::Sub, exponent, by);
        exponent = s.w.select(empty, lower, exponent);
    }
    // The exponent of that bit, counted from the smallest normal number's: below 0, the result is
    // subnormal.
    let offset = s.w.number(a, f.int(2 * f.bits as i64 - 1 + f.bias - 1));
    let level = s.w.binary(Binary::Add, exponent, offset);
    let none = s.w.number(a, f.int(0));
    let below = s.w.compare(Compare::Lt, level, none);
    let deep = s.w.binary(Binary::Sub, none, level);
    let most = s.w.number(a, f.int(f.bits as i64 - 1));
    let deeper = s.w.compare(Compare::Gt, deep, most);
    let deep = s.w.select(deeper, most, deep);
    let deep = s.w.select(below, deep, none);
    let deep = s.w.convert(deep, f.word);
    let rest = s.w.compare(Compare::Ne, total.low, zero);
    let rest = s.one_if(rest);
    let word = s.op(Binary::Or, total.high, rest);
    // The same move as of pairs, with nothing above.
    let word = s.sticky(Pair { high: zero, low: word }, deep).low;

    // A fraction stays; halves go to even.
    let over = f.bits - f.fraction;
    let whole = s.right(word, over);
    let cut = s.mask(word, (1 << over) - 1);
    let above = s.is(Compare::Gt, cut, 1 << (over - 1));
    let half = s.is(Compare::Eq, cut, 1 << (over - 1));
    let last = s.mask(whole, 1);
    let odd = s.is(Compare::Eq, last, 1);
    let tie = s.op(Binary::And, half, odd);
    let up = s.op(Binary::Or, above, tie);
    let up = s.one_if(up);
    let whole = s.op(Binary::Add, whole, up);
    // The fraction's own highest bit adds one to the exponent, and so does a carry.
    let field = s.w.select(below, none, level);
    let field = s.w.convert(field, f.word);
    let field = s.left(field, f.fraction - 1);
    let bits = s.op(Binary::Add, field, whole);
    let infinity = s.int(Constant::float(f.float, f64::INFINITY).bits);
    let too_large = s.w.compare(Compare::Gt, bits, infinity);
    let bits = s.w.select(too_large, infinity, bits);
    let sign = s.left(sign, f.bits - 1);
    let bits = s.op(Binary::Or, bits, sign);
    // Exact cancellation is +0.
    let bits = s.w.select(nothing, zero, bits);

    // A product of 0 leaves the third number; zeros of both signs are +0.
    let mut any = |x: Value, y: Value| s.op(Binary::Or, x, y);
    let (no_product, wild_product) = (any(p.zero, q.zero), any(p.wild, q.wild));
    let nan = any(p.nan, q.nan);
    let nan = any(nan, r.nan);
    let wild = any(wild_product, r.wild);
    let both = s.op(Binary::And, sign_p, r.sign);
    let both = s.left(both, f.bits - 1);
    let third = s.w.select(r.zero, both, r.all);
    let bits = s.w.select(no_product, third, bits);
    // Infinity, and what has no value: 0 times infinity, infinity less infinity.
    let sign = s.w.select(wild_product, sign_p, r.sign);
    let sign = s.left(sign, f.bits - 1);
    let infinity = s.int(f.infinity());
    let infinite = s.op(Binary::Or, sign, infinity);
    let bits = s.w.select(wild, infinite, bits);
    let undefined = s.op(Binary::And, no_product, wild_product);
    let apart = s.w.compare(Compare::Ne, sign_p, r.sign);
    let apart = s.op(Binary::And, apart, wild_product);
    let apart = s.op(Binary::And, apart, r.wild);
    let nan = s.op(Binary::Or, nan, undefined);
    let nan = s.op(Binary::Or, nan, apart);
    let quiet = s.int(Constant::float(f.float, f64::NAN).bits);
    let bits = s.w.select(nan, quiet, bits);
    w.bitcast(bits, f.float)
}
