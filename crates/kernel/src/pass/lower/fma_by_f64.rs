//! Lowering of a fused multiply-add of f32 where the device has none: in f64, rounded to odd.
//!
//! In f64 the product of two f32 is exact. Its sum with the third is rounded, with an error that
//! TwoSum (Knuth) gives exactly. If there is an error and the sum's last bit is even, the sum is
//! moved one step towards the truth: that is rounding to odd, and f64 has more than twice the bits
//! of f32 and two to spare, so rounding it to f32 is as if the exact sum had been rounded (Boldo,
//! Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

use super::writer::Writer;
use crate::ir::{Binary, Compare, Constant, Scalar, Value};

/// `a * b + c`, rounded once.
pub fn fused(w: &mut Writer, a: Value, b: Value, c: Value) -> Value {
    let [a, b, c] = [a, b, c].map(|v| w.convert(v, Scalar::F64));
    let p = w.binary(Binary::Mul, a, b);
    let s = w.binary(Binary::Add, p, c);
    let c_part = w.binary(Binary::Sub, s, p);
    let p_part = w.binary(Binary::Sub, s, c_part);
    let c_rest = w.binary(Binary::Sub, c, c_part);
    let p_rest = w.binary(Binary::Sub, p, p_part);
    let error = w.binary(Binary::Add, p_rest, c_rest);

    let bits = w.bitcast(s, Scalar::I64);
    let (zero, one) = (w.int(bits, 0), w.int(bits, 1));
    let last = w.binary(Binary::And, bits, one);
    let even = w.compare(Compare::Eq, last, zero);
    let nothing = w.number(s, Constant::float(Scalar::F64, 0.0));
    // Ordered comparisons: the error of an infinite or NaN sum is NaN, and moves nothing.
    let (more, less) = (w.compare(Compare::Gt, error, nothing), w.compare(Compare::Lt, error, nothing));
    let inexact = w.binary(Binary::Or, more, less);
    let moves = w.binary(Binary::And, inexact, even);
    let negative = w.compare(Compare::Lt, s, nothing);
    // Away from zero if the error has the sum's sign: one more in the bits, whatever the sign.
    let outwards = w.binary(Binary::Xor, more, negative);
    let (up, down) = (w.binary(Binary::Add, bits, one), w.binary(Binary::Sub, bits, one));
    let next = w.select(outwards, up, down);
    let odd = w.select(moves, next, bits);
    let sum = w.bitcast(odd, Scalar::F64);
    w.convert(sum, Scalar::F32)
}
