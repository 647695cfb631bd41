//! Lowering of operations whose edge cases differ between targets: division by zero, wide shifts,
//! minimum and maximum, saturation.

use super::writer::Writer;
use crate::ir::{Binary, Builtin, Compare, Constant, Op, Scalar, Type, Unary, Value};

/// The unsigned integer as wide as a scalar.
fn word(s: Scalar) -> Scalar {
    if s.bits() == 64 { Scalar::U64 } else { Scalar::U32 }
}

/// A divisor that does no harm, and where it was 0 or (signed) -1.
fn divisor(w: &mut Writer, b: Value) -> (Value, Value, Option<Value>) {
    let (zero, one) = (w.int(b, 0), w.int(b, 1));
    let is_zero = w.compare(Compare::Eq, b, zero);
    if !w.scalar(b).is_signed() {
        return (w.select(is_zero, one, b), is_zero, None);
    }
    let minus_one = w.int(b, -1);
    let is_minus_one = w.compare(Compare::Eq, b, minus_one);
    let edge = w.binary(Binary::Or, is_zero, is_minus_one);
    (w.select(edge, one, b), is_zero, Some(is_minus_one))
}

/// x / y: 0 if y is 0, and -x, which wraps, if y is -1.
pub fn divide(w: &mut Writer, a: Value, b: Value) -> Value {
    let (safe, is_zero, is_minus_one) = divisor(w, b);
    let q = w.binary(Binary::Div, a, safe);
    let q = match is_minus_one {
        None => q,
        Some(m) => {
            let negative = w.unary(Unary::Neg, a);
            w.select(m, negative, q)
        }
    };
    let zero = w.int(b, 0);
    w.select(is_zero, zero, q)
}

/// x - y * (x / y): 0 if y is 0 or -1. From the quotient, because targets disagree about signs.
pub fn remainder(w: &mut Writer, a: Value, b: Value) -> Value {
    let (safe, is_zero, is_minus_one) = divisor(w, b);
    let q = w.binary(Binary::Div, a, safe);
    let product = w.binary(Binary::Mul, q, safe);
    let r = w.binary(Binary::Sub, a, product);
    let edge = is_minus_one.map_or(is_zero, |m| w.binary(Binary::Or, is_zero, m));
    let zero = w.int(b, 0);
    w.select(edge, zero, r)
}

/// A shift by an amount below the width.
pub fn shift(w: &mut Writer, op: Binary, a: Value, b: Value) -> Value {
    let mask = w.int(b, i64::from(w.scalar(b).bits()) - 1);
    let amount = w.binary(Binary::And, b, mask);
    w.binary(op, a, amount)
}

/// The smaller or larger of two floats: a NaN stays; zeros by their signs.
pub fn extreme(w: &mut Writer, op: Binary, a: Value, b: Value) -> Value {
    let s = w.scalar(a);
    let (wins, ties) = match op {
        Binary::Max => (Compare::Gt, Binary::And),
        _ => (Compare::Lt, Binary::Or),
    };
    let first = w.compare(wins, a, b);
    let best = w.select(first, a, b);
    // Equal numbers have equal bits but for zeros: there, the or (and) of the signs is the smaller
    // (larger).
    let (x, y) = (w.bitcast(a, word(s)), w.bitcast(b, word(s)));
    let tie = w.binary(ties, x, y);
    let tie = w.bitcast(tie, s);
    let equal = w.compare(Compare::Eq, a, b);
    let number = w.select(equal, tie, best);
    // A comparison with NaN is false, so a NaN on the right is there already.
    let nan = w.compare(Compare::Ne, a, a);
    w.select(nan, a, number)
}

/// The smallest or largest float of a subgroup, for all of its lanes: each takes the other's half,
/// quarter, and so on. Which of them comes first makes no difference.
pub fn reduce(w: &mut Writer, op: Binary, a: Value, lanes: u32, built: bool) -> Value {
    let lane = w.push(Op::Builtin(Builtin::SubgroupLane), Type::U32);
    let (mut v, mut far) = (a, lanes / 2);
    while far > 0 {
        let distance = w.push(Op::Const(far.into()), Type::U32);
        let other = w.binary(Binary::Xor, lane, distance);
        let theirs = w.push(Op::Shuffle(v, other), w.ty(v));
        v = if built { extreme(w, op, v, theirs) } else { w.binary(op, v, theirs) };
        far /= 2;
    }
    v
}

/// The magnitude of a with the sign of b.
pub fn copy_sign(w: &mut Writer, a: Value, b: Value) -> Value {
    let s = w.scalar(b);
    let bits = w.bitcast(b, if s.bits() == 64 { Scalar::I64 } else { Scalar::I32 });
    let zero = w.int(bits, 0);
    // Not by `and` and `or` of bits: Mesa 26 takes a choice between a float and such a number for
    // something else.
    let below = w.compare(Compare::Lt, bits, zero);
    let plus = w.unary(Unary::Abs, a);
    let minus = w.unary(Unary::Neg, plus);
    w.select(below, minus, plus)
}

/// A float as an integer: saturated, and 0 for NaN.
pub fn saturate(w: &mut Writer, a: Value, to: Scalar) -> Value {
    let s = w.scalar(a);
    // Below the first and from the second on, a number does not fit. Where the least number less 1
    // is no float, it rounds to the least number itself, which saturates to the same.
    let (below, above) = match to {
        Scalar::I32 => (-2_147_483_649.0, 2_147_483_648.0),
        Scalar::U32 => (-1.0, 4_294_967_296.0),
        Scalar::I64 => (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0),
        Scalar::U64 => (-1.0, 18_446_744_073_709_551_616.0),
        Scalar::Bool | Scalar::F32 | Scalar::F64 => unreachable!("saturation is for integers"),
    };
    let low = w.number(a, Constant::float(s, below));
    let high = w.number(a, Constant::float(s, above));
    let (more, less) = (w.compare(Compare::Gt, a, low), w.compare(Compare::Lt, a, high));
    let fits = w.binary(Binary::And, more, less);
    let zero = w.number(a, Constant::float(s, 0.0));
    let safe = w.select(fits, a, zero);
    let whole = w.convert(safe, to);
    let min = w.number(a, Constant::float(to, f64::NEG_INFINITY));
    let max = w.number(a, Constant::float(to, f64::INFINITY));
    let negative = w.compare(Compare::Lt, a, zero);
    let end = w.select(negative, min, max);
    let nothing = w.number(a, Constant::int(to, 0));
    let number = w.compare(Compare::Eq, a, a);
    let end = w.select(number, end, nothing);
    w.select(fits, whole, end)
}
