//! MSL: constants, arithmetic, comparisons.
//!
//! Signed integers are computed with as unsigned ones: the language is C++, whose signed integers
//! may not overflow.

use super::functions::Function;
use super::{MslPrinter, unsigned, vector_name};
use crate::emit::statements::ZERO;
use crate::ir::{Binary, Constant, Scalar, Unary, Value};

pub(super) fn constant(c: Constant) -> String {
    let bits = c.bits as u32;
    match c.scalar {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::U32 => format!("{bits}u"),
        // It has no literal: those are of magnitudes.
        Scalar::I32 if bits as i32 == i32::MIN => format!("as_type<int>({bits}u)"),
        Scalar::I32 => (bits as i32).to_string(),
        Scalar::U64 => format!("{}ul", c.bits),
        Scalar::I64 if c.bits as i64 == i64::MIN => format!("as_type<long>({}ul)", c.bits),
        Scalar::I64 => format!("{}l", c.bits as i64),
        Scalar::F32 => float(bits),
        Scalar::F64 => unreachable!("refused"),
    }
}

impl MslPrinter<'_> {
    pub(super) fn unary(&mut self, op: Unary, a: Value) -> String {
        let s = self.scalar(a);
        let (x, ty) = (self.name(a), self.ty(a));
        match op {
            Unary::Not if s == Scalar::Bool => format!("!{x}"),
            Unary::Not => format!("~{x}"),
            Unary::Neg if s.is_int() => {
                let word = vector_name(unsigned(s), self.width(a));
                self.signed(a, &format!("{word}(0) - {}", self.word(a)))
            }
            Unary::Neg => format!("-{x}"),
            Unary::Abs => format!("fabs({x})"),
            // Correctly rounded in the tables of functions without fast math; the name keeps it so
            // whatever the compiler is told.
            Unary::Sqrt => format!("precise::sqrt({x})"),
            Unary::Floor => format!("floor({x})"),
            Unary::Ceil => format!("ceil({x})"),
            Unary::Trunc => format!("trunc({x})"),
            // To even.
            Unary::Round => format!("rint({x})"),
            Unary::RoundF16 => format!("{ty}({}({x}))", half_name(self.width(a))),
            Unary::RoundBF16 => {
                self.calls(Function::Bf16Bits);
                self.calls(Function::Bf16Value);
                let width = self.width(a);
                self.each(s, width, |i| format!("bf16_value(bf16_bits({}))", self.element(a, i)))
            }
            Unary::Exp2 => unreachable!("{op:?} of {s} is lowered before"),
        }
    }

    pub(super) fn binary(&mut self, op: Binary, a: Value, b: Value) -> String {
        let s = self.scalar(a);
        if op == Binary::MulHigh && s.bits() == 64 {
            let f = if s.is_signed() { Function::MulHighLong } else { Function::MulHighUlong };
            self.calls(f);
            let call = |i| format!("{}({}, {})", f.name(), self.element(a, i), self.element(b, i));
            return self.each(s, self.width(a), call);
        }
        let (x, y) = (self.name(a), self.name(b));
        let wrapping = |op: &str| self.signed(a, &format!("{} {op} {}", self.word(a), self.word(b)));
        match op {
            Binary::Mul if s.is_float() && self.target.contracts => self.disguised(a, &self.infix(op, a, b)),
            Binary::Add if s.is_int() => wrapping("+"),
            Binary::Sub if s.is_int() => wrapping("-"),
            Binary::Mul if s.is_int() => wrapping("*"),
            Binary::Shl => wrapping("<<"),
            Binary::Min if s.is_int() => self.choice(a, &format!("{x} < {y}"), x, y),
            Binary::Max if s.is_int() => self.choice(a, &format!("{x} > {y}"), x, y),
            Binary::MulHigh => format!("mulhi({x}, {y})"),
            _ => self.infix(op, a, b),
        }
    }

    /// An integer as an unsigned one.
    fn word(&self, v: Value) -> String {
        let s = self.scalar(v);
        match s.is_signed() {
            true => format!("as_type<{}>({})", vector_name(unsigned(s), self.width(v)), self.name(v)),
            false => self.name(v).to_string(),
        }
    }
    /// An unsigned integer of the type that another value has.
    fn signed(&self, like: Value, text: &str) -> String {
        match self.scalar(like).is_signed() {
            true => format!("as_type<{}>({text})", self.ty(like)),
            false => text.to_string(),
        }
    }

    /// A product of which no compiler knows that it is one, so that none adds to it without
    /// rounding it.
    fn disguised(&self, like: Value, product: &str) -> String {
        let (float, width) = (self.ty(like), self.width(like));
        let word = vector_name(Scalar::U32, width);
        let zero = if self.is_helper { "zero" } else { ZERO };
        format!("as_type<{float}>(as_type<{word}>({product}) ^ {word}({zero}))")
    }

    pub(super) fn select(&self, c: Value, a: Value, b: Value) -> String {
        self.choice(a, self.name(c), self.name(a), self.name(b))
    }
    fn choice(&self, like: Value, c: &str, x: &str, y: &str) -> String {
        match self.width(like) {
            1 => format!("{c} ? {x} : {y}"),
            _ => format!("select({y}, {x}, {c})"),
        }
    }
}

/// The name of a vector of f16.
pub(super) fn half_name(width: u8) -> String {
    if width == 1 { "half".to_string() } else { format!("half{width}") }
}

/// A number by the shortest digits that are rounded to it; by its bits if it has none, or if a
/// compiler might flush it.
fn float(bits: u32) -> String {
    let x = f32::from_bits(bits);
    if x.is_normal() || x == 0.0 && !x.is_subnormal() {
        return format!("{x:?}f");
    }
    format!("as_type<float>({bits:#x}u)")
}
