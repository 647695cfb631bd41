//! WGSL: constants, arithmetic, comparisons.

use super::{Target, WgslPrinter, vector_name};
use crate::emit::statements::ZERO;
use crate::ir::{Binary, Constant, Scalar, Unary, Value};

impl Target {
    pub(super) fn literal(&self, c: Constant) -> String {
        let bits = c.bits as u32;
        match c.scalar {
            Scalar::Bool => (bits != 0).to_string(),
            Scalar::U32 => format!("{bits}u"),
            // It has no literal: those are of magnitudes.
            Scalar::I32 if bits as i32 == i32::MIN => format!("bitcast<i32>({bits}u)"),
            Scalar::I32 => format!("{}i", bits as i32),
            Scalar::F32 => self.float(bits),
            // No i64 of these functions is the least one, and no f64 is other than 0 or a power
            // of 2.
            Scalar::I64 => format!("{}li", c.bits as i64),
            Scalar::U64 => format!("{}lu", c.bits),
            Scalar::F64 => format!("{:e}lf", f64::from_bits(c.bits)),
        }
    }

    /// A number by its digits, if no compiler could take it for something else.
    fn float(&self, bits: u32) -> String {
        let x = f32::from_bits(bits);
        if x.is_normal() || (bits == 0 && self.keeps_zeros) {
            return hexadecimal(x);
        }
        format!("bitcast<f32>({bits}u ^ {ZERO})")
    }
}

impl WgslPrinter<'_> {
    pub(super) fn unary(&self, op: Unary, a: Value) -> String {
        let s = self.scalar(a);
        let (x, ty) = (self.name(a), self.ty(a));
        match op {
            Unary::Not if s == Scalar::Bool => format!("!{x}"),
            Unary::Not => format!("~{x}"),
            Unary::Neg if s.is_int() => format!("{ty}() - {x}"),
            Unary::Sqrt => format!("sqrt({x})"),
            Unary::Floor => format!("floor({x})"),
            Unary::Ceil => format!("ceil({x})"),
            Unary::Trunc => format!("trunc({x})"),
            // To even, in WGSL.
            Unary::Round => format!("round({x})"),
            Unary::Neg | Unary::Abs | Unary::Exp2 | Unary::RoundF16 | Unary::RoundBF16 => {
                unreachable!("{op:?} of {s} is lowered before")
            }
        }
    }

    pub(super) fn binary(&self, op: Binary, a: Value, b: Value) -> String {
        let s = self.scalar(a);
        let (x, y) = (self.name(a), self.name(b));
        match op {
            Binary::Add | Binary::Sub | Binary::Mul if s.is_float() && self.target.contracts => {
                self.disguised(a, &self.infix(op, a, b))
            }
            Binary::Min if s.is_int() => format!("min({x}, {y})"),
            Binary::Max if s.is_int() => format!("max({x}, {y})"),
            Binary::Shl if s != Scalar::U32 => format!("{x} << {}({y})", self.words(a)),
            Binary::Shr if s != Scalar::U32 => format!("{x} >> {}({y})", self.words(a)),
            _ => self.infix(op, a, b),
        }
    }

    /// The type of words, as wide as a value.
    fn words(&self, like: Value) -> String {
        vector_name(Scalar::U32, self.width(like))
    }

    /// A product or a sum of which no compiler knows that it is one, so that none adds to it
    /// without rounding it, or takes a term out of it again.
    fn disguised(&self, like: Value, result: &str) -> String {
        let (float, width) = (self.ty(like), self.width(like));
        if self.scalar(like) == Scalar::F64 {
            return format!("bitcast<f64>(bitcast<u64>({result}) ^ u64({ZERO}))");
        }
        let word = vector_name(Scalar::U32, width);
        let zero = if width == 1 { ZERO.to_string() } else { format!("{word}({ZERO})") };
        format!("bitcast<{float}>(bitcast<{word}>({result}) ^ {zero})")
    }

    /// A choice. Between two float constants it is made of bits of which one is disguised: Mesa
    /// 22.3 takes a choice between the bits of 0 and -1 for the negative of 0 or 1, whatever is
    /// done with the bits after it, and so gives -0 for 0.
    pub(super) fn select(&self, c: Value, a: Value, b: Value) -> String {
        if let (Some(x), Some(y)) = (self.fixed(a), self.fixed(b))
            && x.scalar == Scalar::F32
            && !self.target.keeps_zeros
        {
            let word = vector_name(Scalar::U32, self.width(a));
            let [x, y] = [x, y].map(|c| format!("{word}({}u)", c.bits));
            let ty = self.ty(a);
            return format!("bitcast<{ty}>(select({y} ^ {word}({ZERO}), {x}, {}))", self.name(c));
        }
        format!("select({}, {}, {})", self.name(b), self.name(a), self.name(c))
    }
}

/// The digits of a number that is normal or 0, in base 16: no compiler rounds them.
fn hexadecimal(x: f32) -> String {
    let bits = x.to_bits();
    let sign = if x.is_sign_negative() { "-" } else { "" };
    if x == 0.0 {
        return "0.0f".to_string();
    }
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32 - 127, (bits & 0x7f_ffff) << 1);
    let digits = format!("{fraction:06x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { String::new() } else { format!(".{digits}") };
    format!("{sign}0x1{point}p{exponent:+}f")
}
