//! Lowering for devices whose rounding to whole numbers is not right everywhere: some take
//! subnormal numbers for 0; Mesa 22.3's compiler for processors with AVX2 and no AVX-512 loses the
//! sign of zero, and takes every f64 from 2^24 on for a whole number.

use super::writer::Writer;
use crate::ir::{Binary, Compare, Constant, Scalar, Unary, Value};

/// A float rounded to a whole number. Adding the number from which all floats are whole, and taking
/// it away again, rounds a magnitude to nearest, ties to even; one more or less is then the whole
/// number above or below. Magnitudes are compared as integers, which no device flushes.
pub fn round(w: &mut Writer, op: Unary, a: Value) -> Value {
    let s = w.scalar(a);
    let (word, whole_from) = match s {
        Scalar::F64 => (Scalar::U64, Constant::float(s, 2f64.powi(52))),
        _ => (Scalar::U32, Constant::float(s, 2f64.powi(23))),
    };
    let bits = w.bitcast(a, word);
    let number = |w: &mut Writer, bits_of: u64| w.number(bits, Constant { scalar: word, bits: bits_of });
    let top = number(w, 1 << (word.bits() - 1));
    let rest = w.unary(Unary::Not, top);
    let (sign, size) = (w.binary(Binary::And, bits, top), w.binary(Binary::And, bits, rest));
    let least = number(w, whole_from.bits);
    // Infinities and NaN are not below.
    let has_fraction = w.compare(Compare::Lt, size, least);
    let (x, magic, one) = (w.bitcast(size, s), w.number(a, whole_from), w.number(a, Constant::float(s, 1.0)));
    let shifted = w.binary(Binary::Add, x, magic);
    let nearest = w.binary(Binary::Sub, shifted, magic);
    let nearest_bits = w.bitcast(nearest, word);
    let mut below = || {
        let less = w.binary(Binary::Sub, nearest, one);
        let less = w.bitcast(less, word);
        let is_above = w.compare(Compare::Lt, size, nearest_bits);
        w.select(is_above, less, nearest_bits)
    };
    let rounded = match op {
        Unary::Round => nearest_bits,
        Unary::Trunc => below(),
        _ => {
            let below = below();
            let more = w.binary(Binary::Add, nearest, one);
            let more = w.bitcast(more, word);
            let is_below = w.compare(Compare::Lt, nearest_bits, size);
            let above = w.select(is_below, more, nearest_bits);
            let zero = number(w, 0);
            let negative = w.compare(Compare::Ne, sign, zero);
            // What is less has the larger magnitude if it is negative.
            match op {
                Unary::Floor => w.select(negative, above, below),
                _ => w.select(negative, below, above),
            }
        }
    };
    let signed = w.binary(Binary::Or, rounded, sign);
    let chosen = w.select(has_fraction, signed, bits);
    w.bitcast(chosen, s)
}
