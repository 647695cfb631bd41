//! PTX: arithmetic and comparisons.

use super::{Emitter, Register, raw, ty};
use crate::ir::{Binary, Compare, Constant, Scalar, Unary};

impl Emitter<'_> {
    pub(super) fn constant(&mut self, c: Constant) -> Register {
        let s = c.scalar;
        match s {
            Scalar::Bool => self.inst(s, "setp.ne.u32", &[&c.bits.to_string(), "0"]),
            Scalar::F32 => self.inst(s, "mov.f32", &[&format!("0f{:08X}", c.bits)]),
            Scalar::F64 => self.inst(s, "mov.f64", &[&format!("0d{:016X}", c.bits)]),
            Scalar::I32 | Scalar::U32 => self.inst(s, "mov.b32", &[&format!("0x{:X}", c.bits)]),
            Scalar::I64 | Scalar::U64 => self.inst(s, "mov.b64", &[&format!("0x{:X}", c.bits)]),
        }
    }

    pub(super) fn unary(&mut self, op: Unary, s: Scalar, a: &str) -> Register {
        let t = ty(s);
        let op = match op {
            Unary::Neg => format!(
                "neg.{}",
                if s == Scalar::U32 {
                    "s32"
                } else if s == Scalar::U64 {
                    "s64"
                } else {
                    t
                }
            ),
            Unary::Not => format!("not.{}", raw(s)),
            Unary::Abs => format!("abs.{t}"),
            Unary::Exp2 => format!("ex2.approx.ftz.{t}"),
            Unary::Sqrt => format!("sqrt.rn.{t}"),
            Unary::Floor => format!("cvt.rmi.{t}.{t}"),
            Unary::Ceil => format!("cvt.rpi.{t}.{t}"),
            Unary::Trunc => format!("cvt.rzi.{t}.{t}"),
            Unary::Round => format!("cvt.rni.{t}.{t}"),
            Unary::RoundF16 => {
                let half = self.half_of(a);
                return self.inst(s, "cvt.f32.f16", &[&half]);
            }
            Unary::RoundBF16 => {
                let bits = self.bf16_bits(a);
                return self.inst(s, "mov.b32", &[&bits]);
            }
        };
        self.inst(s, &op, &[a])
    }

    pub(super) fn binary(&mut self, op: Binary, s: Scalar, a: &str, b: &str) -> Register {
        let (t, r) = (ty(s), raw(s));
        let bool = s == Scalar::Bool;
        let op = match op {
            Binary::Add if s.is_float() => format!("add.rn.{t}"),
            Binary::Sub if s.is_float() => format!("sub.rn.{t}"),
            Binary::Mul if s.is_float() => format!("mul.rn.{t}"),
            Binary::Div if s.is_float() => format!("div.rn.{t}"),
            Binary::Add => format!("add.{t}"),
            Binary::Sub => format!("sub.{t}"),
            Binary::Mul => format!("mul.lo.{t}"),
            Binary::MulHigh => format!("mul.hi.{t}"),
            Binary::Div => format!("div.{t}"),
            Binary::Rem => format!("rem.{t}"),
            Binary::Min if bool => "and.pred".into(),
            Binary::Max if bool => "or.pred".into(),
            Binary::Min if s.is_int() => format!("min.{t}"),
            Binary::Max if s.is_int() => format!("max.{t}"),
            // NaN if one is, and zeros have an order.
            Binary::Min if s == Scalar::F32 && self.has_extremes => format!("min.NaN.{t}"),
            Binary::Max if s == Scalar::F32 && self.has_extremes => format!("max.NaN.{t}"),
            Binary::And => format!("and.{r}"),
            Binary::Or => format!("or.{r}"),
            Binary::Xor => format!("xor.{r}"),
            Binary::Shl | Binary::Shr => {
                // The amount has 32 bits, whatever is moved.
                let amount = match s.bits() {
                    64 => self.inst(Scalar::U32, "cvt.u32.u64", &[b]),
                    _ => b.to_string(),
                };
                let op = if op == Binary::Shl { format!("shl.{r}") } else { format!("shr.{t}") };
                return self.inst(s, &op, &[a, &amount]);
            }
            Binary::Min | Binary::Max | Binary::CopySign => {
                unreachable!("{op:?} of {s} is lowered before")
            }
        };
        self.inst(s, &op, &[a, b])
    }

    pub(super) fn compare(&mut self, op: Compare, s: Scalar, a: &str, b: &str) -> Register {
        if s == Scalar::Bool {
            // False is less than true.
            let not = |e: &mut Self, v: &str| e.inst(s, "not.pred", &[v]);
            return match op {
                Compare::Ne => self.inst(s, "xor.pred", &[a, b]),
                Compare::Eq => {
                    let ne = self.inst(s, "xor.pred", &[a, b]);
                    not(self, &ne)
                }
                Compare::Lt => {
                    let a = not(self, a);
                    self.inst(s, "and.pred", &[&a, b])
                }
                Compare::Le => {
                    let a = not(self, a);
                    self.inst(s, "or.pred", &[&a, b])
                }
                Compare::Gt => {
                    let b = not(self, b);
                    self.inst(s, "and.pred", &[a, &b])
                }
                Compare::Ge => {
                    let b = not(self, b);
                    self.inst(s, "or.pred", &[a, &b])
                }
            };
        }
        let word = match op {
            Compare::Eq => "eq",
            // True for NaN.
            Compare::Ne if s.is_float() => "neu",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        };
        self.inst(Scalar::Bool, &format!("setp.{word}.{}", ty(s)), &[a, b])
    }

    pub(super) fn select(&mut self, s: Scalar, c: &str, a: &str, b: &str) -> Register {
        if s != Scalar::Bool {
            return self.inst(s, &format!("selp.{}", ty(s)), &[a, b, c]);
        }
        let yes = self.inst(s, "and.pred", &[c, a]);
        let not = self.inst(s, "not.pred", &[c]);
        let no = self.inst(s, "and.pred", &[&not, b]);
        self.inst(s, "or.pred", &[&yes, &no])
    }
}
