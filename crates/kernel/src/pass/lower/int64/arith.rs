//! Arithmetic of pairs of words.

use crate::ir::{Binary, Compare, Constant, Inst, Op, Region, Scalar, Type, Unary, Value};
use crate::pass::lower::writer::Writer;

/// The words of a value, low and high: u32, or vectors of them.
pub type Pair = [Value; 2];

/// An element of a vector, or the number itself.
pub fn element(w: &mut Writer, v: Value, i: u8) -> Value {
    match w.ty(v) {
        Type::Vector(_, 1) => v,
        t => w.push(Op::Extract(v, i), t.scalar().expect("words are numbers").into()),
    }
}

/// A constant of a word's type.
pub fn word(w: &mut Writer, like: Value, bits: u32) -> Value {
    w.number(like, Constant::from(bits))
}

/// A number, as wide as a value.
pub fn number(w: &mut Writer, like: Value, bits: u64) -> Pair {
    [bits as u32, (bits >> 32) as u32].map(|half| word(w, like, half))
}

/// One or the other.
pub fn pick(w: &mut Writer, c: Value, a: Pair, b: Pair) -> Pair {
    [0, 1].map(|i| w.select(c, a[i], b[i]))
}

fn each(w: &mut Writer, op: Binary, a: Pair, b: Pair) -> Pair {
    [0, 1].map(|i| w.binary(op, a[i], b[i]))
}

/// 1 where a condition is true, else 0.
fn one_if(w: &mut Writer, c: Value) -> Value {
    w.convert(c, Scalar::U32)
}

pub fn unary(w: &mut Writer, op: Unary, a: Pair) -> Pair {
    match op {
        Unary::Neg => negated(w, a),
        Unary::Not => a.map(|x| w.unary(Unary::Not, x)),
        _ => unreachable!("an operation on floats"),
    }
}

pub fn negated(w: &mut Writer, a: Pair) -> Pair {
    let zero = number(w, a[0], 0);
    sub(w, zero, a)
}

pub fn binary(w: &mut Writer, op: Binary, signed: bool, a: Pair, b: Pair) -> Pair {
    match op {
        Binary::Add => add(w, a, b),
        Binary::Sub => sub(w, a, b),
        Binary::Mul => mul(w, a, b),
        Binary::Div => divided(w, a, b, signed)[0],
        Binary::Rem => divided(w, a, b, signed)[1],
        Binary::Min | Binary::Max => {
            let op = if op == Binary::Min { Compare::Lt } else { Compare::Gt };
            let first = compared(w, op, signed, a, b);
            pick(w, first, a, b)
        }
        Binary::And | Binary::Or | Binary::Xor => each(w, op, a, b),
        Binary::Shl => shl(w, a, b[0]),
        Binary::Shr => shr(w, a, b[0], signed),
        Binary::MulHigh => mul_high(w, a, b, signed),
        Binary::CopySign => unreachable!("an operation on floats"),
    }
}

fn add(w: &mut Writer, a: Pair, b: Pair) -> Pair {
    let low = w.binary(Binary::Add, a[0], b[0]);
    let carry = w.compare(Compare::Lt, low, a[0]);
    let carry = one_if(w, carry);
    let high = w.binary(Binary::Add, a[1], b[1]);
    [low, w.binary(Binary::Add, high, carry)]
}

fn sub(w: &mut Writer, a: Pair, b: Pair) -> Pair {
    let low = w.binary(Binary::Sub, a[0], b[0]);
    let borrow = w.compare(Compare::Lt, a[0], b[0]);
    let borrow = one_if(w, borrow);
    let high = w.binary(Binary::Sub, a[1], b[1]);
    [low, w.binary(Binary::Sub, high, borrow)]
}

/// The whole product of two words.
fn product(w: &mut Writer, a: Value, b: Value) -> Pair {
    [w.binary(Binary::Mul, a, b), w.binary(Binary::MulHigh, a, b)]
}

fn mul(w: &mut Writer, a: Pair, b: Pair) -> Pair {
    let [low, high] = product(w, a[0], b[0]);
    let (x, y) = (w.binary(Binary::Mul, a[0], b[1]), w.binary(Binary::Mul, a[1], b[0]));
    let cross = w.binary(Binary::Add, x, y);
    [low, w.binary(Binary::Add, high, cross)]
}

/// The upper 64 bits of the product: four products of words, none of whose sums wraps.
fn mul_high(w: &mut Writer, a: Pair, b: Pair, signed: bool) -> Pair {
    let zero = word(w, a[0], 0);
    let lowest = w.binary(Binary::MulHigh, a[0], b[0]);
    let middle = product(w, a[0], b[1]);
    let middle = add(w, middle, [lowest, zero]);
    let other = product(w, a[1], b[0]);
    let other = add(w, other, [middle[0], zero]);
    let high = product(w, a[1], b[1]);
    let high = add(w, high, [middle[1], zero]);
    let high = add(w, high, [other[1], zero]);
    if !signed {
        return high;
    }
    // A negative factor was taken for one that is larger by 2^64.
    let none = [zero, zero];
    [(a, b), (b, a)].into_iter().fold(high, |high, (x, y)| {
        let negative = is_negative(w, x);
        let less = pick(w, negative, y, none);
        sub(w, high, less)
    })
}

pub fn is_negative(w: &mut Writer, a: Pair) -> Value {
    let top = word(w, a[1], 1 << 31);
    w.compare(Compare::Ge, a[1], top)
}

/// A move to the left, by a number of places modulo 64.
pub fn shl(w: &mut Writer, a: Pair, by: Value) -> Pair {
    let (beyond, by, rest) = places(w, by);
    let zero = word(w, a[0], 0);
    let low = w.binary(Binary::Shl, a[0], by);
    let high = w.binary(Binary::Shl, a[1], by);
    // A word less `by` places right, in two steps because by may be 0.
    let one = word(w, a[0], 1);
    let over = w.binary(Binary::Shr, a[0], one);
    let over = w.binary(Binary::Shr, over, rest);
    let high = w.binary(Binary::Or, high, over);
    pick(w, beyond, [zero, low], [low, high])
}

/// A move to the right, by a number of places modulo 64.
pub fn shr(w: &mut Writer, a: Pair, by: Value, signed: bool) -> Pair {
    let (beyond, by, rest) = places(w, by);
    let one = word(w, a[0], 1);
    let over = w.binary(Binary::Shl, a[1], one);
    let over = w.binary(Binary::Shl, over, rest);
    let low = w.binary(Binary::Shr, a[0], by);
    let low = w.binary(Binary::Or, low, over);
    let mut above = |by: Value| {
        if !signed {
            return w.binary(Binary::Shr, a[1], by);
        }
        let [x, by] = [a[1], by].map(|v| w.bitcast(v, Scalar::I32));
        let x = w.binary(Binary::Shr, x, by);
        w.bitcast(x, Scalar::U32)
    };
    let high = above(by);
    let fill = if signed {
        let most = word(w, a[0], 31);
        let [x, by] = [a[1], most].map(|v| w.bitcast(v, Scalar::I32));
        let x = w.binary(Binary::Shr, x, by);
        w.bitcast(x, Scalar::U32)
    } else {
        word(w, a[0], 0)
    };
    pick(w, beyond, [high, fill], [low, high])
}

/// Is it a word or more, the places within a word, and 31 less those.
fn places(w: &mut Writer, by: Value) -> (Value, Value, Value) {
    let (all, most, half) = (word(w, by, 63), word(w, by, 31), word(w, by, 32));
    let by = w.binary(Binary::And, by, all);
    let beyond = w.compare(Compare::Ge, by, half);
    let by = w.binary(Binary::And, by, most);
    (beyond, by, w.binary(Binary::Xor, by, most))
}

/// The comparison as an instruction.
pub fn compare(w: &mut Writer, op: Compare, signed: bool, a: Pair, b: Pair) -> Op {
    match op {
        Compare::Eq | Compare::Ne => {
            let [low, high] = [0, 1].map(|i| w.compare(op, a[i], b[i]));
            Op::Binary(if op == Compare::Eq { Binary::And } else { Binary::Or }, low, high)
        }
        Compare::Gt => compare(w, Compare::Lt, signed, b, a),
        Compare::Le => {
            let more = compared(w, Compare::Lt, signed, b, a);
            Op::Unary(Unary::Not, more)
        }
        Compare::Ge => {
            let less = compared(w, Compare::Lt, signed, a, b);
            Op::Unary(Unary::Not, less)
        }
        Compare::Lt => {
            let equal = w.compare(Compare::Eq, a[1], b[1]);
            let low = w.compare(Compare::Lt, a[0], b[0]);
            let low = w.binary(Binary::And, equal, low);
            let (mut x, mut y) = (a[1], b[1]);
            if signed {
                [x, y] = [x, y].map(|v| w.bitcast(v, Scalar::I32));
            }
            let high = w.compare(Compare::Lt, x, y);
            Op::Binary(Binary::Or, high, low)
        }
    }
}

fn compared(w: &mut Writer, op: Compare, signed: bool, a: Pair, b: Pair) -> Value {
    let op = compare(w, op, signed, a, b);
    let ty = w.ty(a[0]).of(Scalar::Bool);
    w.push(op, ty)
}

/// Quotient and remainder; both 0 where the divisor is 0.
fn divided(w: &mut Writer, a: Pair, b: Pair, signed: bool) -> [Pair; 2] {
    if !signed {
        return divided_unsigned(w, a, b);
    }
    // The least number stays itself, which is its magnitude.
    let (negative_a, negative_b) = (is_negative(w, a), is_negative(w, b));
    let mut magnitude = |negative: Value, x: Pair| {
        let other = negated(w, x);
        pick(w, negative, other, x)
    };
    let (x, y) = (magnitude(negative_a, a), magnitude(negative_b, b));
    let [q, r] = divided_unsigned(w, x, y);
    let opposite = w.binary(Binary::Xor, negative_a, negative_b);
    [(opposite, q), (negative_a, r)].map(|(negative, x)| {
        let other = negated(w, x);
        pick(w, negative, other, x)
    })
}

fn divided_unsigned(w: &mut Writer, a: Pair, b: Pair) -> [Pair; 2] {
    let width = w.ty(a[0]).width();
    let each: Vec<[Value; 4]> = (0..width)
        .map(|i| {
            let [a, b] = [a, b].map(|p| p.map(|v| element(w, v, i)));
            divided_one(w, a, b)
        })
        .collect();
    let all: [Value; 4] = std::array::from_fn(|i| match width {
        1 => each[0][i],
        _ => w.push(Op::Compose(each.iter().map(|e| e[i]).collect()), Type::Vector(Scalar::U32, width)),
    });
    [[all[0], all[1]], [all[2], all[3]]]
}

/// A region that yields some values.
fn inside(w: &mut Writer, args: Vec<Value>, f: impl FnOnce(&mut Writer) -> Vec<Value>) -> Region {
    let outer = std::mem::take(&mut w.out);
    let yields = f(w);
    Region { args, insts: std::mem::replace(&mut w.out, outer), yields }
}

/// Of one number: by the target's own division if words are all there is, else bit by bit.
fn divided_one(w: &mut Writer, a: Pair, b: Pair) -> [Value; 4] {
    let zero = word(w, a[0], 0);
    let high = w.binary(Binary::Or, a[1], b[1]);
    let short = w.compare(Compare::Eq, high, zero);
    let then = inside(w, Vec::new(), |w| {
        let (q, r) = (w.binary(Binary::Div, a[0], b[0]), w.binary(Binary::Rem, a[0], b[0]));
        vec![q, zero, r, zero]
    });
    let other = inside(w, Vec::new(), |w| bit_by_bit(w, a, b));
    let results: [Value; 4] = std::array::from_fn(|_| w.value(Type::U32));
    w.out.push(Inst { op: Op::If(short, then, other), results: results.to_vec() });
    results
}

/// 64 steps: a bit of the dividend goes into the remainder, and one of the quotient takes its
/// place.
fn bit_by_bit(w: &mut Writer, a: Pair, b: Pair) -> Vec<Value> {
    let [zero, one, bits] = [0, 1, 64].map(|n| word(w, a[0], n));
    let args: Vec<Value> = (0..5).map(|_| w.value(Type::U32)).collect();
    let (q, r) = ([args[1], args[2]], [args[3], args[4]]);
    let body = inside(w, args, |w| {
        let last = word(w, q[0], 31);
        let (carry, bit) = (w.binary(Binary::Shr, r[1], last), w.binary(Binary::Shr, q[1], last));
        let (r, q) = (add(w, r, r), add(w, q, q));
        let r = [w.binary(Binary::Or, r[0], bit), r[1]];
        // A remainder of 65 bits is larger, too.
        let fits = compared(w, Compare::Ge, false, r, b);
        let beyond = w.compare(Compare::Ne, carry, zero);
        let fits = w.binary(Binary::Or, fits, beyond);
        let less = sub(w, r, b);
        let r = pick(w, fits, less, r);
        let fits = one_if(w, fits);
        vec![w.binary(Binary::Or, q[0], fits), q[1], r[0], r[1]]
    });
    let results: Vec<Value> = (0..4).map(|_| w.value(Type::U32)).collect();
    let init = vec![a[0], a[1], zero, zero];
    w.out.push(Inst {
        op: Op::For { start: zero, end: bits, step: one, init, body },
        results: results.clone(),
    });
    let any = w.binary(Binary::Or, b[0], b[1]);
    let by_zero = w.compare(Compare::Eq, any, zero);
    results.into_iter().map(|v| w.select(by_zero, zero, v)).collect()
}
