//! The arithmetic of scalars on bit patterns: what the interpreter runs and constant folding
//! computes.
//!
//! A lookup gives a plain function from bits to bits, so that a loop over many invocations looks up
//! once. `None` is an operation that a type does not have; the verifier uses the same lookups, so
//! that there is one list.

mod convert;
mod float;
mod int;

pub use convert::{bits, convert, decode, encode, tf32, whole};

use crate::ir::{Atomic, Binary, Compare, Reduce, Scalar, Unary};

/// A function of one number.
pub type UnaryFn = fn(u64) -> u64;
/// A function of two numbers.
pub type BinaryFn = fn(u64, u64) -> u64;
/// A function of three numbers.
pub type TernaryFn = fn(u64, u64, u64) -> u64;

/// Operations of f32 that take subnormal numbers for zeros, and give zeros for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Sums, differences and products.
    pub sums: bool,
    /// Multiply-adds.
    pub fma: bool,
    /// Quotients and square roots.
    pub quotients: bool,
    /// Comparisons, and the smaller and larger of two.
    pub comparisons: bool,
    /// Magnitudes and negations.
    pub signs: bool,
    /// Rounding to whole numbers.
    pub rounding: bool,
    /// Conversions.
    pub conversions: bool,
}

impl Flushes {
    /// Every operation does.
    pub const ALL: Flushes = Flushes {
        sums: true,
        fma: true,
        quotients: true,
        comparisons: true,
        signs: true,
        rounding: true,
        conversions: true,
    };

    /// Does this operation?
    pub fn unary(self, op: Unary) -> bool {
        match op {
            Unary::Neg | Unary::Abs => self.signs,
            Unary::Sqrt => self.quotients,
            Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => self.rounding,
            Unary::RoundF16 => self.conversions,
            Unary::Exp2 => self.sums,
            // Of bits.
            Unary::Not | Unary::RoundBF16 => false,
        }
    }

    /// Does this operation?
    pub fn binary(self, op: Binary) -> bool {
        match op {
            Binary::Add | Binary::Sub | Binary::Mul => self.sums,
            Binary::Div => self.quotients,
            Binary::Min | Binary::Max => self.comparisons,
            Binary::Rem
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Shl
            | Binary::Shr
            | Binary::MulHigh
            | Binary::CopySign => false,
        }
    }
}

/// What of the contract's arithmetic a device may lack; for tests of code made for such devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// fma rounds the product, then the sum.
    pub fused: bool,
    /// Operations of f32 that read subnormals as zero and write them as zero; moves, loads and
    /// stores never do.
    pub flushes: Flushes,
    /// f32's quotients and square roots are off by up to three units in the last place.
    pub precision: bool,
    /// Loops of an invocation take so many passes in all, at most; more is a fault. What counts is
    /// told in [`crate::loops`].
    pub max_loop_iterations: Option<u64>,
}

/// What `op` does to numbers of type `s`.
pub fn unary(op: Unary, s: Scalar) -> Option<UnaryFn> {
    match s {
        Scalar::Bool => match op {
            Unary::Not => Some(|x| x ^ 1),
            Unary::Neg
            | Unary::Abs
            | Unary::Sqrt
            | Unary::Floor
            | Unary::Ceil
            | Unary::Trunc
            | Unary::Round
            | Unary::RoundF16
            | Unary::RoundBF16
            | Unary::Exp2 => None,
        },
        Scalar::I32 => int::i32::unary(op),
        Scalar::U32 => int::u32::unary(op),
        Scalar::I64 => int::i64::unary(op),
        Scalar::U64 => int::u64::unary(op),
        Scalar::F32 => float::f32::unary(op),
        Scalar::F64 => float::f64::unary(op),
    }
}

/// What `op` does to two numbers of type `s`.
pub fn binary(op: Binary, s: Scalar) -> Option<BinaryFn> {
    match s {
        Scalar::Bool => match op {
            Binary::And | Binary::Min => Some(|x, y| x & y),
            Binary::Or | Binary::Max => Some(|x, y| x | y),
            Binary::Xor => Some(|x, y| x ^ y),
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Rem
            | Binary::Shl
            | Binary::Shr
            | Binary::MulHigh
            | Binary::CopySign => None,
        },
        Scalar::I32 => int::i32::binary(op),
        Scalar::U32 => int::u32::binary(op),
        Scalar::I64 => int::i64::binary(op),
        Scalar::U64 => int::u64::binary(op),
        Scalar::F32 => float::f32::binary(op),
        Scalar::F64 => float::f64::binary(op),
    }
}

/// How two numbers of type `s` compare; 0 or 1.
pub fn compare(op: Compare, s: Scalar) -> BinaryFn {
    match s {
        Scalar::Bool | Scalar::U64 => int::u64::compare(op),
        Scalar::I32 => int::i32::compare(op),
        Scalar::U32 => int::u32::compare(op),
        Scalar::I64 => int::i64::compare(op),
        Scalar::F32 => float::f32::compare(op),
        Scalar::F64 => float::f64::compare(op),
    }
}

/// `a * b + c`.
pub fn fma(s: Scalar, fused: bool) -> Option<TernaryFn> {
    match (s, fused) {
        (Scalar::F32, true) => Some(float::f32::fma),
        (Scalar::F32, false) => Some(float::f32::unfused),
        (Scalar::F64, true) => Some(float::f64::fma),
        (Scalar::F64, false) => Some(float::f64::unfused),
        (Scalar::Bool | Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64, _) => None,
    }
}

/// The operation of a reduction over a subgroup; not for sums of floats, which have an order.
pub fn reduce(op: Reduce, s: Scalar) -> Option<BinaryFn> {
    match op {
        Reduce::Add if s.is_int() => binary(Binary::Add, s),
        Reduce::Add => None,
        Reduce::Min => binary(Binary::Min, s),
        Reduce::Max => binary(Binary::Max, s),
        Reduce::And => binary(Binary::And, s),
        Reduce::Or => binary(Binary::Or, s),
    }
}

/// What an atomic puts into memory: from what is there and its operand.
pub fn atomic(op: Atomic, s: Scalar) -> Option<BinaryFn> {
    if !matches!(s, Scalar::I32 | Scalar::U32) {
        return None;
    }
    match op {
        Atomic::Add => binary(Binary::Add, s),
        Atomic::Min => binary(Binary::Min, s),
        Atomic::Max => binary(Binary::Max, s),
        Atomic::And => binary(Binary::And, s),
        Atomic::Or => binary(Binary::Or, s),
        Atomic::Xor => binary(Binary::Xor, s),
        Atomic::Exchange => Some(|_, y| y),
    }
}

/// A zero of the same sign for an f32 that is subnormal.
pub fn flush(x: u64) -> u64 {
    if x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x }
}

/// A number near an f32: what a device gives that is not exact. How far off depends on the number,
/// so that results can be repeated.
pub fn blur(x: u64) -> u64 {
    let off = (x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 7;
    let near = x.wrapping_add(off).wrapping_sub(3);
    // Zero, infinity and NaN, and what would become one, stay.
    let is_middle = |v: u64| (0x0080_0010..0x7f7f_fff0).contains(&(v & 0x7fff_ffff));
    if is_middle(x) { near } else { x }
}
