//! WGSL: constants, arithmetic, comparisons.

use super::helper::Helper;
use super::{Printer, vector_name};
use crate::ir::{Binary, Compare, Constant, Scalar, Unary, Value};
use crate::pass::Unsupported;

/// A word that is 0, which no compiler knows.
const ZERO: &str = "params.zero";

impl Printer<'_> {
    pub(super) fn constant(&self, c: Constant) -> String {
        let bits = c.bits as u32;
        match c.scalar {
            Scalar::Bool => (bits != 0).to_string(),
            Scalar::U32 => format!("{bits}u"),
            // It has no literal: those are of magnitudes.
            Scalar::I32 if bits as i32 == i32::MIN => format!("bitcast<i32>({bits}u)"),
            Scalar::I32 => format!("{}i", bits as i32),
            Scalar::F32 => self.float(bits),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => unreachable!("lowered or refused"),
        }
    }

    /// A number by its digits, if no compiler could take it for something else.
    fn float(&self, bits: u32) -> String {
        let x = f32::from_bits(bits);
        if x.is_normal() || (bits == 0 && self.target.keeps_zeros) {
            return hexadecimal(x);
        }
        format!("bitcast<f32>({bits}u ^ {ZERO})")
    }

    pub(super) fn unary(&mut self, op: Unary, a: Value) -> Result<String, Unsupported> {
        let s = self.scalar(a);
        if op == Unary::Sqrt && self.builds(Helper::Sqrt) {
            return self.helper(Helper::Sqrt, &[a]);
        }
        let (x, ty) = (self.name(a), self.ty(a));
        Ok(match op {
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
        })
    }

    pub(super) fn binary(&mut self, op: Binary, a: Value, b: Value) -> Result<String, Unsupported> {
        let s = self.scalar(a);
        let helper = match op {
            Binary::Add => Some(Helper::Add),
            Binary::Sub => Some(Helper::Sub),
            Binary::Mul => Some(Helper::Mul),
            Binary::Div => Some(Helper::Div),
            _ => None,
        };
        let helper = match op {
            Binary::MulHigh if s.is_signed() => Some(Helper::MulHighSigned),
            Binary::MulHigh => Some(Helper::MulHigh),
            _ => helper.filter(|_| s.is_float()),
        };
        if let Some(helper) = helper.filter(|&h| self.builds(h)) {
            return self.helper(helper, &[a, b]);
        }
        let (x, y) = (self.name(a), self.name(b));
        let bool = s == Scalar::Bool;
        let infix = |op: &str| format!("{x} {op} {y}");
        Ok(match op {
            Binary::Add if s.is_float() && self.target.contracts => self.disguised(a, &infix("+")),
            Binary::Sub if s.is_float() && self.target.contracts => self.disguised(a, &infix("-")),
            Binary::Mul if s.is_float() && self.target.contracts => self.disguised(a, &infix("*")),
            Binary::Add => infix("+"),
            Binary::Sub => infix("-"),
            Binary::Mul => infix("*"),
            Binary::Div => infix("/"),
            Binary::Min | Binary::And if bool => infix("&"),
            Binary::Max | Binary::Or if bool => infix("|"),
            Binary::Xor if bool => infix("!="),
            Binary::Min if s.is_int() => format!("min({x}, {y})"),
            Binary::Max if s.is_int() => format!("max({x}, {y})"),
            Binary::And => infix("&"),
            Binary::Or => infix("|"),
            Binary::Xor => infix("^"),
            Binary::Shl | Binary::Shr => {
                let op = if op == Binary::Shl { "<<" } else { ">>" };
                match s {
                    Scalar::U32 => infix(op),
                    _ => format!("{x} {op} {}({y})", vector_name(Scalar::U32, self.width(a))),
                }
            }
            Binary::Rem | Binary::Min | Binary::Max | Binary::MulHigh | Binary::CopySign => {
                unreachable!("{op:?} of {s} is lowered before")
            }
        })
    }

    /// A product or a sum of which no compiler knows that it is one, so that none adds to it
    /// without rounding it, or takes a term out of it again.
    fn disguised(&self, like: Value, result: &str) -> String {
        let (float, width) = (self.ty(like), self.width(like));
        let word = vector_name(Scalar::U32, width);
        let zero = if width == 1 { ZERO.to_string() } else { format!("{word}({ZERO})") };
        format!("bitcast<{float}>(bitcast<{word}>({result}) ^ {zero})")
    }

    pub(super) fn fma(&mut self, a: Value, b: Value, c: Value) -> Result<String, Unsupported> {
        if self.builds(Helper::Fma) {
            return self.helper(Helper::Fma, &[a, b, c]);
        }
        Ok(format!("fma({}, {}, {})", self.name(a), self.name(b), self.name(c)))
    }

    /// A choice. Between two float constants it is made of bits of which one is disguised: Mesa 22.3
    /// takes a choice between the bits of 0 and -1 for the negative of 0 or 1, whatever is done with
    /// the bits after it, and so gives -0 for 0.
    pub(super) fn select(&self, c: Value, a: Value, b: Value) -> String {
        let fixed = |v: Value| self.constants[v.0 as usize];
        if let (Some(x), Some(y)) = (fixed(a), fixed(b))
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

    pub(super) fn compare(&self, op: Compare, a: Value, b: Value) -> String {
        let (x, y) = (self.name(a), self.name(b));
        let s = self.scalar(a);
        assert!(!s.is_float(), "comparisons of floats are lowered before");
        if s == Scalar::Bool {
            // False is less than true.
            return match op {
                Compare::Eq => format!("{x} == {y}"),
                Compare::Ne => format!("{x} != {y}"),
                Compare::Lt => format!("!{x} & {y}"),
                Compare::Le => format!("!{x} | {y}"),
                Compare::Gt => format!("{x} & !{y}"),
                Compare::Ge => format!("{x} | !{y}"),
            };
        }
        let op = match op {
            Compare::Eq => "==",
            Compare::Ne => "!=",
            Compare::Lt => "<",
            Compare::Le => "<=",
            Compare::Gt => ">",
            Compare::Ge => ">=",
        };
        format!("{x} {op} {y}")
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
