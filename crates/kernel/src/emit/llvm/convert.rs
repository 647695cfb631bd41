//! LLVM IR: conversions. Floats that become integers fit: lowering has seen to it.

use super::{Assembler, Operand, ty};
use crate::ir::Scalar;

impl Assembler<'_> {
    pub(super) fn convert(&mut self, to: Scalar, from: Scalar, a: &str) -> Operand {
        let (t, f) = (ty(to), ty(from));
        let word = match (from, to) {
            _ if from == to => return a.to_string(),
            (_, Scalar::Bool) if from.is_float() => {
                return self.inst(&format!("fcmp une {f} {a}, 0.0"));
            }
            (_, Scalar::Bool) => return self.inst(&format!("icmp ne {f} {a}, 0")),
            (Scalar::Bool, _) if to.is_float() => "uitofp",
            (Scalar::Bool, _) => "zext",
            (Scalar::F32, Scalar::F64) => "fpext",
            (Scalar::F64, Scalar::F32) => "fptrunc",
            _ if from.is_float() && to.is_signed() => "fptosi",
            _ if from.is_float() => "fptoui",
            _ if to.is_float() && from.is_signed() => "sitofp",
            _ if to.is_float() => "uitofp",
            // The same bits, which have no sign here.
            _ if from.bits() == to.bits() => return a.to_string(),
            _ if from.bits() > to.bits() => "trunc",
            _ if from.is_signed() => "sext",
            _ => "zext",
        };
        self.inst(&format!("{word} {f} {a} to {t}"))
    }

    /// A float as an integer, any one if it does not fit: what LLVM leaves open there is made one
    /// number.
    pub(super) fn float_to_int(&mut self, s: Scalar, a: &str) -> Operand {
        let to = if s == Scalar::F64 { "i64" } else { "i32" };
        let open = self.inst(&format!("fptosi {} {a} to {to}", ty(s)));
        self.inst(&format!("freeze {to} {open}"))
    }

    /// The same bits as another type of the same width.
    pub(super) fn bitcast(&mut self, to: Scalar, from: Scalar, a: &str) -> Operand {
        if ty(to) == ty(from) {
            return a.to_string();
        }
        self.inst(&format!("bitcast {} {a} to {}", ty(from), ty(to)))
    }

    /// The bits of an f32 rounded to the nearest bf16: half of what is cut off is added, less one
    /// if the last bit that stays is even.
    pub(super) fn bf16_bits(&mut self, a: &str) -> Operand {
        let bits = self.inst(&format!("bitcast float {a} to i32"));
        let last = self.inst(&format!("lshr i32 {bits}, 16"));
        let odd = self.inst(&format!("and i32 {last}, 1"));
        let more = self.inst(&format!("add i32 {odd}, 32767"));
        let sum = self.inst(&format!("add i32 {bits}, {more}"));
        let cut = self.inst(&format!("and i32 {sum}, -65536"));
        // A NaN could become infinity by the addition.
        let nan = self.inst(&format!("fcmp uno float {a}, 0.0"));
        self.inst(&format!("select i1 {nan}, i32 {}, i32 {cut}", 0x7fc0_0000))
    }
}
