//! LLVM IR: arithmetic and comparisons.
//!
//! No instruction carries a flag (`fast`, `nsw`, `exact`, ...), so none gives poison, and LLVM
//! keeps to IEEE 754. `fdiv` without `!fpmath` is correctly rounded for both floats: AMDGPU expands
//! it to `div_scale`, a chain of fma and `div_fixup` (`SITargetLowering::LowerFDIV32`,
//! `LowerFDIV64`), as OpenCL asks of `-cl-fp32-correctly-rounded-divide-sqrt` and of doubles. Roots
//! are not: up to LLVM 16 `llvm.sqrt` is the bare instruction, wrong by one unit; so they are
//! lowered before, and what is left is a guess.

use super::{Assembler, Operand, ty};
use crate::ir::{Binary, Compare, Constant, Scalar, Unary};

impl Assembler<'_> {
    /// A constant as an operand. Floats are written as the bits of f64, to which those of f32 are
    /// widened, NaN as well.
    pub(super) fn constant(c: Constant) -> Operand {
        match c.scalar {
            Scalar::Bool => if c.bits == 0 { "false" } else { "true" }.to_string(),
            Scalar::I32 | Scalar::U32 => (c.bits as u32 as i32).to_string(),
            Scalar::I64 | Scalar::U64 => (c.bits as i64).to_string(),
            Scalar::F64 => format!("0x{:016X}", c.bits),
            Scalar::F32 => {
                let x = f32::from_bits(c.bits as u32);
                let nan = (c.bits >> 31) << 63 | 0x7ff << 52 | (c.bits & 0x7f_ffff) << 29;
                format!("0x{:016X}", if x.is_nan() { nan } else { f64::from(x).to_bits() })
            }
        }
    }

    pub(super) fn unary(&mut self, op: Unary, s: Scalar, a: &str) -> Operand {
        let t = ty(s);
        let name = match op {
            Unary::Neg if s.is_float() => return self.inst(&format!("fneg {t} {a}")),
            Unary::Neg => return self.inst(&format!("sub {t} 0, {a}")),
            Unary::Not if s == Scalar::Bool => return self.inst(&format!("xor i1 {a}, true")),
            Unary::Not => return self.inst(&format!("xor {t} {a}, -1")),
            Unary::Abs => "fabs",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Trunc => "trunc",
            // To nearest even, in the mode that a kernel starts with.
            Unary::Round => "rint",
            Unary::Exp2 => "exp2",
            // A guess, which is made exact around it.
            Unary::Sqrt => "amdgcn.sqrt",
            Unary::RoundF16 => {
                let half = self.inst(&format!("fptrunc float {a} to half"));
                return self.inst(&format!("fpext half {half} to float"));
            }
            Unary::RoundBF16 => {
                let bits = self.bf16_bits(a);
                return self.inst(&format!("bitcast i32 {bits} to float"));
            }
        };
        let float = if s == Scalar::F64 { "f64" } else { "f32" };
        self.call(&format!("llvm.{name}.{float}"), t, &[(t, a)])
    }

    pub(super) fn binary(&mut self, op: Binary, s: Scalar, a: &str, b: &str) -> Operand {
        let (t, signed, bits) = (ty(s), s.is_signed(), s.bits());
        let name = match op {
            Binary::Add if s.is_float() => "fadd",
            Binary::Sub if s.is_float() => "fsub",
            Binary::Mul if s.is_float() => "fmul",
            Binary::Div if s.is_float() => "fdiv",
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            // No divisor is 0 or -1, and no amount as large as the width: lowering has seen to it.
            Binary::Div if signed => "sdiv",
            Binary::Div => "udiv",
            Binary::Shl => "shl",
            Binary::Shr if signed => "ashr",
            Binary::Shr => "lshr",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::Min if s == Scalar::Bool => "and",
            Binary::Max if s == Scalar::Bool => "or",
            Binary::Min | Binary::Max if s.is_int() => {
                let sign = if signed { 's' } else { 'u' };
                let name = if op == Binary::Min { "min" } else { "max" };
                return self.call(&format!("llvm.{sign}{name}.i{bits}"), t, &[(t, a), (t, b)]);
            }
            Binary::CopySign => return self.call(&format!("llvm.copysign.f{bits}"), t, &[(t, a), (t, b)]),
            Binary::MulHigh => {
                let (wide, extend) = (2 * bits, if signed { "sext" } else { "zext" });
                let [x, y] = [a, b].map(|v| self.inst(&format!("{extend} {t} {v} to i{wide}")));
                let product = self.inst(&format!("mul i{wide} {x}, {y}"));
                let high = self.inst(&format!("lshr i{wide} {product}, {bits}"));
                return self.inst(&format!("trunc i{wide} {high} to {t}"));
            }
            Binary::Rem | Binary::Min | Binary::Max => unreachable!("{op:?} of {s} is lowered before"),
        };
        self.inst(&format!("{name} {t} {a}, {b}"))
    }

    pub(super) fn compare(&mut self, op: Compare, s: Scalar, a: &str, b: &str) -> Operand {
        let t = ty(s);
        let word = match op {
            Compare::Eq if s.is_float() => "oeq",
            // True for NaN.
            Compare::Ne if s.is_float() => "une",
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        };
        let order = match op {
            Compare::Eq | Compare::Ne => "",
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge if s.is_float() => "o",
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge if s.is_signed() => "s",
            Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge => "u",
        };
        let kind = if s.is_float() { "fcmp" } else { "icmp" };
        self.inst(&format!("{kind} {order}{word} {t} {a}, {b}"))
    }

    pub(super) fn select(&mut self, s: Scalar, c: &str, a: &str, b: &str) -> Operand {
        let t = ty(s);
        self.inst(&format!("select i1 {c}, {t} {a}, {t} {b}"))
    }

    pub(super) fn fma(&mut self, s: Scalar, [a, b, c]: [&str; 3]) -> Operand {
        let t = ty(s);
        self.call(&format!("llvm.fma.f{}", s.bits()), t, &[(t, a), (t, b), (t, c)])
    }
}
