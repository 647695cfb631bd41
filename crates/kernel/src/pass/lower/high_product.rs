//! Lowering of the upper half of a product of words, for targets that give the lower one only.

use super::writer::Writer;
use crate::ir::{Binary, Compare, Scalar, Value};

/// Bits of half a word.
const HALF: u32 = 16;

/// The upper word of the product of two words, from four products of halves, whose sums do not
/// wrap.
pub fn mul_high(w: &mut Writer, a: Value, b: Value) -> Value {
    if w.scalar(a) == Scalar::U32 {
        return unsigned(w, a, b);
    }
    // A negative factor was taken for one that is larger by 2^32.
    let [x, y] = [a, b].map(|v| w.bitcast(v, Scalar::U32));
    let high = unsigned(w, x, y);
    let mut high = w.bitcast(high, Scalar::I32);
    let zero = w.int(a, 0);
    for (x, y) in [(a, b), (b, a)] {
        let negative = w.compare(Compare::Lt, x, zero);
        let less = w.select(negative, y, zero);
        high = w.binary(Binary::Sub, high, less);
    }
    high
}

fn unsigned(w: &mut Writer, a: Value, b: Value) -> Value {
    let (half, mask) = (w.u32(a, HALF), w.u32(a, (1 << HALF) - 1));
    let [a0, b0] = [a, b].map(|v| w.binary(Binary::And, v, mask));
    let [a1, b1] = [a, b].map(|v| w.binary(Binary::Shr, v, half));
    let low = w.binary(Binary::Mul, a0, b0);
    let over = w.binary(Binary::Shr, low, half);
    let x = w.binary(Binary::Mul, a1, b0);
    let x = w.binary(Binary::Add, x, over);
    let y = w.binary(Binary::Mul, a0, b1);
    let x0 = w.binary(Binary::And, x, mask);
    let y = w.binary(Binary::Add, y, x0);
    let high = w.binary(Binary::Mul, a1, b1);
    let [x1, y1] = [x, y].map(|v| w.binary(Binary::Shr, v, half));
    let high = w.binary(Binary::Add, high, x1);
    w.binary(Binary::Add, high, y1)
}
