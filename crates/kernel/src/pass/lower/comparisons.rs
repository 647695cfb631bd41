//! Lowering of comparisons of floats, and of operations on the sign, to integers: for devices that
//! take subnormal numbers for 0 there, though their arithmetic keeps them.

use super::writer::Writer;
use crate::ir::{Binary, Compare, Constant, Scalar, Unary, Value};

/// The unsigned and the signed integer as wide as a float.
fn words(s: Scalar) -> (Scalar, Scalar) {
    if s == Scalar::F64 { (Scalar::U64, Scalar::I64) } else { (Scalar::U32, Scalar::I32) }
}

/// The bits of a float (unsigned), and the sign bit.
fn bits(w: &mut Writer, a: Value) -> (Value, Value) {
    let (word, _) = words(w.scalar(a));
    let bits = w.bitcast(a, word);
    let top = w.number(bits, Constant { scalar: word, bits: 1 << (word.bits() - 1) });
    (bits, top)
}

/// The magnitude, or the number with the other sign.
pub fn sign(w: &mut Writer, op: Unary, a: Value) -> Value {
    let s = w.scalar(a);
    let (bits, top) = bits(w, a);
    let changed = if op == Unary::Neg {
        w.binary(Binary::Xor, bits, top)
    } else {
        let rest = w.unary(Unary::Not, top);
        w.binary(Binary::And, bits, rest)
    };
    w.bitcast(changed, s)
}

/// An integer in whose order floats are, with zeros equal, and whether it is a number.
fn key(w: &mut Writer, a: Value) -> (Value, Value) {
    let s = w.scalar(a);
    let (_, signed) = words(s);
    let (bits, top) = bits(w, a);
    let rest = w.unary(Unary::Not, top);
    let magnitude = w.binary(Binary::And, bits, rest);
    let infinity = w.number(bits, Constant { scalar: w.scalar(bits), ..Constant::float(s, f64::INFINITY) });
    let number = w.compare(Compare::Le, magnitude, infinity);
    let negative = w.compare(Compare::Ne, bits, magnitude);
    let magnitude = w.bitcast(magnitude, signed);
    let below = w.unary(Unary::Neg, magnitude);
    (w.select(negative, below, magnitude), number)
}

/// Is it other than 0? NaN is.
pub fn truth(w: &mut Writer, a: Value) -> Value {
    let (bits, top) = bits(w, a);
    let rest = w.unary(Unary::Not, top);
    let magnitude = w.binary(Binary::And, bits, rest);
    let zero = w.number(bits, Constant::int(w.scalar(bits), 0));
    w.compare(Compare::Ne, magnitude, zero)
}

/// A comparison: with NaN all are false but `Ne`.
pub fn compare(w: &mut Writer, op: Compare, a: Value, b: Value) -> Value {
    let ((x, x_is), (y, y_is)) = (key(w, a), key(w, b));
    let holds = w.compare(op, x, y);
    let numbers = w.binary(Binary::And, x_is, y_is);
    if op == Compare::Ne {
        let other = w.unary(Unary::Not, numbers);
        return w.binary(Binary::Or, holds, other);
    }
    w.binary(Binary::And, holds, numbers)
}
