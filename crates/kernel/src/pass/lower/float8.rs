//! Lowering of floats of one byte: memory of bytes, and conversions by integer operations.
//!
//! Nothing here depends on subnormals of f32, which some devices take for zeros: a subnormal code
//! is a whole number times a power of two, and a sum with a large power of two rounds to one.

use super::writer::Writer;
use crate::ir::{Binary, Compare, Elem, Kernel, Place, Scalar, Value};
use elinvar_core::{Float8, Format};

/// Which memory of a kernel is of floats of one byte.
#[derive(Default)]
pub struct FloatPlaces {
    buffers: Vec<Option<Float8>>,
    shared: Vec<Option<Float8>>,
}

impl FloatPlaces {
    /// Makes all of it memory of bytes.
    pub fn take(k: &mut Kernel) -> FloatPlaces {
        fn take(elem: &mut Elem) -> Option<Float8> {
            let Elem::F8(f) = *elem else { return None };
            *elem = Elem::U8;
            Some(f)
        }
        FloatPlaces {
            buffers: k.buffers.iter_mut().map(|b| take(&mut b.elem)).collect(),
            shared: k.shared.iter_mut().map(|s| take(&mut s.elem)).collect(),
        }
    }
    /// How its elements were stored.
    pub fn format(&self, p: Place) -> Option<Format> {
        let float = match p {
            Place::Buffer(i) => self.buffers[i as usize],
            Place::Shared(i) => self.shared[i as usize],
        };
        float.map(Float8::format)
    }
}

/// The values of codes.
pub fn decode(w: &mut Writer, code: Value, f: Format) -> Value {
    let magnitude = w.u32(code, f.nan());
    let rest = w.binary(Binary::And, code, magnitude);
    let shift = w.u32(code, f.shift());
    let wide = w.binary(Binary::Shl, rest, shift);
    let rebias = w.u32(code, f.rebias());
    let normal = w.binary(Binary::Add, wide, rebias);
    let count = w.convert(rest, Scalar::F32);
    let smallest = w.f32(code, f.decode(1));
    let subnormal = w.binary(Binary::Mul, count, smallest);
    let subnormal = w.bitcast(subnormal, Scalar::U32);
    let first_normal = w.u32(code, 1 << f.mantissa);
    let is_subnormal = w.compare(Compare::Lt, rest, first_normal);
    let mut bits = w.select(is_subnormal, subnormal, normal);
    if f.infinities {
        let (last, infinity) = (w.u32(code, f.overflow()), w.u32(code, f32::INFINITY.to_bits()));
        let is_infinite = w.compare(Compare::Eq, rest, last);
        bits = w.select(is_infinite, infinity, bits);
    }
    let (last, nan) = (w.u32(code, f.last_number()), w.u32(code, f32::NAN.to_bits()));
    let is_nan = w.compare(Compare::Gt, rest, last);
    let bits = w.select(is_nan, nan, bits);
    let top = w.u32(code, f.bits() - 1);
    let sign = w.binary(Binary::Shr, code, top);
    let top = w.u32(code, 31);
    let sign = w.binary(Binary::Shl, sign, top);
    let bits = w.binary(Binary::Or, bits, sign);
    w.bitcast(bits, Scalar::F32)
}

/// The codes nearest to values, ties to even.
pub fn encode(w: &mut Writer, x: Value, f: Format) -> Value {
    let bits = w.bitcast(x, Scalar::U32);
    let magnitude = w.u32(bits, 0x7fff_ffff);
    let rest = w.binary(Binary::And, bits, magnitude);
    // Rounded by a sum whose last place is that of subnormals.
    let (magic, magic_bits) =
        (w.f32(bits, f32::from_bits(f.subnormal_magic())), w.u32(bits, f.subnormal_magic()));
    let positive = w.bitcast(rest, Scalar::F32);
    let sum = w.binary(Binary::Add, positive, magic);
    let sum = w.bitcast(sum, Scalar::U32);
    let subnormal = w.binary(Binary::Sub, sum, magic_bits);
    // Half of the last place, less a bit if that place is even.
    let (shift, one) = (w.u32(bits, f.shift()), w.u32(bits, 1));
    let last = w.binary(Binary::Shr, rest, shift);
    let odd = w.binary(Binary::And, last, one);
    let less = w.u32(bits, ((1u32 << (f.shift() - 1)) - 1).wrapping_sub(f.rebias()));
    let near = w.binary(Binary::Add, rest, less);
    let near = w.binary(Binary::Add, near, odd);
    let near = w.binary(Binary::Shr, near, shift);
    let overflow = w.u32(bits, f.overflow());
    let near = w.binary(Binary::Min, near, overflow);
    let first_normal = w.u32(bits, f.rebias() + (1 << 23));
    let is_subnormal = w.compare(Compare::Lt, rest, first_normal);
    let code = w.select(is_subnormal, subnormal, near);
    let (infinity, nan) = (w.u32(bits, f32::INFINITY.to_bits()), w.u32(bits, f.nan()));
    let is_nan = w.compare(Compare::Gt, rest, infinity);
    let code = w.select(is_nan, nan, code);
    let top = w.u32(bits, 31);
    let sign = w.binary(Binary::Shr, bits, top);
    let top = w.u32(bits, f.bits() - 1);
    let sign = w.binary(Binary::Shl, sign, top);
    w.binary(Binary::Or, code, sign)
}
