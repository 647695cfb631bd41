//! Conversions between scalar types, and between memory elements and values.

use super::UnaryFn;
use crate::ir::{Elem, Scalar};
use elinvar_core::Float8;
use half::{bf16, f16};

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}
fn d(x: u64) -> f64 {
    f64::from_bits(x)
}
fn i(x: u64) -> i32 {
    x as u32 as i32
}
fn from_f(x: f32) -> u64 {
    u64::from(if x.is_nan() { f32::NAN } else { x }.to_bits())
}
fn from_d(x: f64) -> u64 {
    if x.is_nan() { f64::NAN } else { x }.to_bits()
}
fn from_i(x: i32) -> u64 {
    u64::from(x as u32)
}

/// The conversion from one scalar type to another.
pub fn convert(from: Scalar, to: Scalar) -> UnaryFn {
    use Scalar::{Bool, F32, F64, I32, I64, U32, U64};
    match (from, to) {
        (Bool, Bool | I32 | U32 | I64 | U64) => |x| x,
        (Bool, F32) => |x| from_f(x as f32),
        (Bool, F64) => |x| from_d(x as f64),
        (I32 | U32 | I64 | U64, Bool) => |x| u64::from(x != 0),
        (F32, Bool) => |x| u64::from(f(x) != 0.0),
        (F64, Bool) => |x| u64::from(d(x) != 0.0),
        (I32 | U32, I32 | U32) | (I64 | U64, I64 | U64) | (U32, I64 | U64) | (F32, F32) | (F64, F64) => |x| x,
        (I32, I64 | U64) => |x| i64::from(i(x)) as u64,
        (I64 | U64, I32 | U32) => |x| u64::from(x as u32),
        (I32, F32) => |x| from_f(i(x) as f32),
        (U32, F32) => |x| from_f(x as u32 as f32),
        (I64, F32) => |x| from_f(x as i64 as f32),
        (U64, F32) => |x| from_f(x as f32),
        (I32, F64) => |x| from_d(f64::from(i(x))),
        (U32, F64) => |x| from_d(x as f64),
        (I64, F64) => |x| from_d(x as i64 as f64),
        (U64, F64) => |x| from_d(x as f64),
        (F32, I32) => |x| from_i(f(x) as i32),
        (F32, U32) => |x| u64::from(f(x) as u32),
        (F32, I64) => |x| f(x) as i64 as u64,
        (F32, U64) => |x| f(x) as u64,
        (F64, I32) => |x| from_i(d(x) as i32),
        (F64, U32) => |x| u64::from(d(x) as u32),
        (F64, I64) => |x| d(x) as i64 as u64,
        (F64, U64) => |x| d(x) as u64,
        (F32, F64) => |x| from_d(f64::from(f(x))),
        (F64, F32) => |x| from_f(d(x) as f32),
    }
}

/// What a whole number that does not fit becomes here: devices give various numbers, so let it be
/// none that a mistaken kernel would get along with.
const OUT_OF_RANGE_BITS: u64 = 0x5bad_5bad_5bad_5bad;

/// A float to the signed integer of its width; `None` for types that are not floats.
pub fn whole(s: Scalar) -> Option<(Scalar, UnaryFn)> {
    match s {
        Scalar::F32 => Some((Scalar::I32, |x| {
            if f(x).abs() < 2147483648.0 { from_i(f(x) as i32) } else { OUT_OF_RANGE_BITS & 0xffff_ffff }
        })),
        Scalar::F64 => Some((Scalar::I64, |x| {
            if d(x).abs() < 9223372036854775808.0 { d(x) as i64 as u64 } else { OUT_OF_RANGE_BITS }
        })),
        Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64 => None,
    }
}

/// Can the bits of one type be read as those of another?
pub fn bits(from: Scalar, to: Scalar) -> bool {
    from != Scalar::Bool && to != Scalar::Bool && from.bits() == to.bits()
}

/// An f32 as tensor cores take it: ten bits behind the point, ties away from zero; NaN stays one.
pub fn tf32(x: u64) -> u64 {
    if f(x).is_nan() { x } else { (x + 0x1000) & 0xffff_e000 }
}

macro_rules! float8_codes {
    (() half $half:tt byte { $($v:ident: $t:ident $row:tt)* }) => {
        fn decode_float8(f: Float8) -> UnaryFn {
            match f { $(Float8::$v => |x| from_f(elinvar_core::$t::from_bits(x as u8).to_f32()),)* }
        }
        fn encode_float8(to: Float8) -> UnaryFn {
            match to { $(Float8::$v => |x| u64::from(elinvar_core::$t::from_f32(f(x)).to_bits()),)* }
        }
    };
}
elinvar_core::storage_floats!([float8_codes]());

/// From an element of memory to a value.
pub fn decode(e: Elem) -> UnaryFn {
    match e {
        Elem::F16 => |x| from_f(f16::from_bits(x as u16).to_f32()),
        Elem::BF16 => |x| from_f(bf16::from_bits(x as u16).to_f32()),
        Elem::F8(f) => decode_float8(f),
        Elem::Bool | Elem::U8 | Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => {
            |x| x
        }
    }
}

/// From a value to an element of memory.
pub fn encode(e: Elem) -> UnaryFn {
    match e {
        Elem::F16 => |x| u64::from(f16::from_f32(f(x)).to_bits()),
        Elem::BF16 => |x| u64::from(bf16::from_f32(f(x)).to_bits()),
        Elem::F8(f) => encode_float8(f),
        Elem::U8 => |x| x & 0xff,
        Elem::Bool | Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => |x| x,
    }
}
