//! Lowering for devices that take subnormal numbers for 0 in sums, products, multiply-adds or
//! conversions.
//!
//! Sums and products of f32 are those of f64, rounded: f64 has more than twice the bits of f32 and
//! two to spare, so rounding twice is rounding once (Figueroa, "When is double rounding
//! innocuous?", 1995), and where the result is subnormal the first is exact. Without f64, the
//! device's own result stays where it cannot have been flushed, and is computed in integers
//! elsewhere.

use super::writer::Writer;
use super::{fma_by_f64, fma_by_integers};
use crate::ir::{Binary, Compare, Constant, Inst, Op, Region, Scalar, Unary, Value};

/// The bits of the least normal f32.
const LEAST_NORMAL: u32 = 0x0080_0000;

/// A sum, a difference or a product of f32.
pub fn sum(w: &mut Writer, op: Binary, a: Value, b: Value, wide: bool) -> Value {
    if wide { through_f64(w, op, a, b) } else { by_integers(w, op, a, b) }
}

fn through_f64(w: &mut Writer, op: Binary, a: Value, b: Value) -> Value {
    let (a, b) = (w.convert(a, Scalar::F64), w.convert(b, Scalar::F64));
    let wide = w.binary(op, a, b);
    w.convert(wide, Scalar::F32)
}

/// The device's own, or where that is in doubt a multiply-add in integers: a * 1 + b, or a * b - 0,
/// whose zero has the sign of the product.
fn by_integers(w: &mut Writer, op: Binary, a: Value, b: Value) -> Value {
    let own = w.binary(op, a, b);
    unless_doubtful(w, own, &[a, b], |w| match op {
        Binary::Mul => {
            let zero = w.f32(a, -0.0);
            fma_by_integers::fused(w, a, b, zero)
        }
        _ => {
            let one = w.f32(a, 1.0);
            let mut c = b;
            if op == Binary::Sub {
                let bits = w.bitcast(b, Scalar::U32);
                let top = w.u32(bits, 1 << 31);
                let other = w.binary(Binary::Xor, bits, top);
                c = w.bitcast(other, Scalar::F32);
            }
            fma_by_integers::fused(w, a, one, c)
        }
    })
}

/// A constant of f64, as wide as a value.
fn f64(w: &mut Writer, like: Value, v: f64) -> Value {
    w.number(like, Constant::float(Scalar::F64, v))
}

/// An f32 as f64. A subnormal number is a whole number of its units.
pub fn widen(w: &mut Writer, a: Value) -> Value {
    let bits = w.bitcast(a, Scalar::U32);
    let mask = w.u32(bits, 0x7fff_ffff);
    let magnitude = w.binary(Binary::And, bits, mask);
    let least = w.u32(bits, LEAST_NORMAL);
    let small = w.compare(Compare::Lt, magnitude, least);
    let negative = w.compare(Compare::Ne, bits, magnitude);
    let whole = w.convert(magnitude, Scalar::F64);
    let (plus, minus) = (f64(w, whole, 2f64.powi(-149)), f64(w, whole, -2f64.powi(-149)));
    let unit = w.select(negative, minus, plus);
    let tiny = w.binary(Binary::Mul, whole, unit);
    let plain = w.convert(a, Scalar::F64);
    w.select(small, tiny, plain)
}

/// An f64 rounded to f32. What is smaller than normal numbers is counted in units, which adding
/// 2^52 rounds to a whole number.
pub fn narrow(w: &mut Writer, a: Value) -> Value {
    let magnitude = w.unary(Unary::Abs, a);
    let least = f64(w, a, f64::from(f32::MIN_POSITIVE));
    let small = w.compare(Compare::Lt, magnitude, least);
    let (units, magic) = (f64(w, a, 2f64.powi(149)), f64(w, a, 2f64.powi(52)));
    let scaled = w.binary(Binary::Mul, magnitude, units);
    let shifted = w.binary(Binary::Add, scaled, magic);
    let shifted = w.bitcast(shifted, Scalar::U64);
    let whole = w.convert(shifted, Scalar::U32);
    let bits = w.bitcast(a, Scalar::U64);
    let places = w.int(bits, 32);
    let high = w.binary(Binary::Shr, bits, places);
    let high = w.convert(high, Scalar::U32);
    let top = w.u32(high, 1 << 31);
    let sign = w.binary(Binary::And, high, top);
    let tiny = w.binary(Binary::Or, whole, sign);
    let tiny = w.bitcast(tiny, Scalar::F32);
    let plain = w.convert(a, Scalar::F32);
    w.select(small, tiny, plain)
}

/// `a * b + c` of f32, rounded once: the device's own, or built.
pub fn fma(w: &mut Writer, a: Value, b: Value, c: Value, wide: bool) -> Value {
    let own = w.push(Op::Fma(a, b, c), w.ty(a));
    unless_doubtful(w, own, &[a, b, c], |w| match wide {
        true => fma_by_f64::fused(w, a, b, c),
        false => fma_by_integers::fused(w, a, b, c),
    })
}

/// The device's own result, which is right if none of the operands is subnormal and the result is a
/// normal number; else one that is built.
fn unless_doubtful(
    w: &mut Writer,
    own: Value,
    operands: &[Value],
    build: impl FnOnce(&mut Writer) -> Value,
) -> Value {
    // Twice the bits, which leaves the sign out, less 1, which makes zeros the largest. A result of
    // zero may have been subnormal.
    let mut least: Option<Value> = None;
    for (v, zeros) in operands.iter().map(|&v| (v, true)).chain([(own, false)]) {
        let width = w.ty(v).width();
        for i in 0..width {
            let one = if width == 1 { v } else { w.push(Op::Extract(v, i), Scalar::F32.into()) };
            let bits = w.bitcast(one, Scalar::U32);
            let mut twice = w.binary(Binary::Add, bits, bits);
            if zeros {
                let one = w.u32(bits, 1);
                twice = w.binary(Binary::Sub, twice, one);
            }
            least = Some(least.map_or(twice, |l| w.binary(Binary::Min, l, twice)));
        }
    }
    let least = least.expect("vectors have elements");
    let normal = w.u32(least, 2 * LEAST_NORMAL - 1);
    let doubtful = w.compare(Compare::Lt, least, normal);
    let outer = std::mem::take(&mut w.out);
    let built = build(w);
    let insts = std::mem::replace(&mut w.out, outer);
    let then = Region { args: Vec::new(), insts, yields: vec![built] };
    let other = Region { args: Vec::new(), insts: Vec::new(), yields: vec![own] };
    let result = w.value(w.ty(own));
    w.out.push(Inst { op: Op::If(doubtful, then, other), results: vec![result] });
    result
}
