//! Lowering of the approximate 2^x: a polynomial where there is no instruction.

use super::Writer;
use crate::ir::{Binary, Compare, Op, Scalar, Value};

/// 2^f = 1 + f (c1 + f (c2 + ..)) for f in -1/2..1/2, wrong by 2.9e-6 of itself at most: a fit of
/// four coefficients that makes the largest error least.
const EXP2_COEFFICIENTS: [f32; 4] = [0.693_124_2, 0.240_241, 0.055_906_437, 0.009_582_848];
/// Added to a number of at most 2^22 and taken off again, it leaves the nearest whole one, which
/// stands in the lowest bits between.
const ROUND_MAGIC: f32 = 12_582_912.0;
/// Below this, 2^x is nothing: the power of two that is made of it is 0.
const MIN_EXPONENT: f32 = -127.0;

/// 2^x for x of at most 127, or NaN.
pub fn exp2(w: &mut Writer, x: Value) -> Value {
    let least = w.f32(x, MIN_EXPONENT);
    let below = w.compare(Compare::Lt, x, least);
    let x = w.select(below, least, x);
    let magic = w.f32(x, ROUND_MAGIC);
    let shifted = w.binary(Binary::Add, x, magic);
    let whole = w.binary(Binary::Sub, shifted, magic);
    let f = w.binary(Binary::Sub, x, whole);
    let [c1, c2, c3, c4] = EXP2_COEFFICIENTS.map(|c| w.f32(x, c));
    let one = w.f32(x, 1.0);
    let p = [c3, c2, c1, one].into_iter().fold(c4, |p, c| w.push(Op::Fma(f, p, c), w.ty(x)));
    // The whole part is an exponent; for the least, the power is 0. A NaN stays one in the other
    // factor.
    let bits = w.bitcast(shifted, Scalar::U32);
    let [places, bias] = [23, 127 << 23].map(|n| w.u32(x, n));
    let moved = w.binary(Binary::Shl, bits, places);
    let power = w.binary(Binary::Add, moved, bias);
    let power = w.bitcast(power, Scalar::F32);
    w.binary(Binary::Mul, p, power)
}
