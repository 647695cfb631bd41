//! PTX: conversions. Floats that become integers fit: lowering has seen to it.

use super::{Class, Emitter, Register, raw, ty};
use crate::ir::Scalar;

impl Emitter<'_> {
    pub(super) fn convert(&mut self, to: Scalar, from: Scalar, a: &str) -> Register {
        let (t, f) = (ty(to), ty(from));
        match (from, to) {
            (Scalar::Bool, Scalar::Bool) => self.inst(to, "mov.pred", &[a]),
            (_, Scalar::Bool) if from.is_float() => {
                let zero = if from == Scalar::F32 { "0f00000000" } else { "0d0000000000000000" };
                self.inst(to, &format!("setp.neu.{f}"), &[a, zero])
            }
            (_, Scalar::Bool) => self.inst(to, &format!("setp.ne.{f}"), &[a, "0"]),
            (Scalar::Bool, Scalar::F32) => self.inst(to, "selp.f32", &["0f3F800000", "0f00000000", a]),
            (Scalar::Bool, Scalar::F64) => {
                self.inst(to, "selp.f64", &["0d3FF0000000000000", "0d0000000000000000", a])
            }
            (Scalar::Bool, _) => self.inst(to, &format!("selp.{t}"), &["1", "0", a]),
            (Scalar::F32, Scalar::F64) => self.inst(to, "cvt.f64.f32", &[a]),
            (Scalar::F64, Scalar::F32) => self.inst(to, "cvt.rn.f32.f64", &[a]),
            _ if from == to => self.inst(to, &format!("mov.{t}"), &[a]),
            _ if from.is_float() => self.inst(to, &format!("cvt.rzi.{t}.{f}"), &[a]),
            _ if to.is_float() => self.inst(to, &format!("cvt.rn.{t}.{f}"), &[a]),
            _ if from.bits() == to.bits() => self.inst(to, &format!("mov.{}", raw(to)), &[a]),
            // Wider by the sign of what it is, narrower by cutting.
            _ => self.inst(to, &format!("cvt.{t}.{f}"), &[a]),
        }
    }

    /// An f32 as f16.
    pub(super) fn half_of(&mut self, a: &str) -> Register {
        let half = self.register(Class::Half);
        self.line(&format!("cvt.rn.f16.f32 {half}, {a}"));
        half
    }

    /// An f32 as bf16.
    pub(super) fn bf16_of(&mut self, a: &str) -> Register {
        let half = self.register(Class::Half);
        if self.rounds_bf16 {
            self.line(&format!("cvt.rn.bf16.f32 {half}, {a}"));
        } else {
            let bits = self.bf16_bits(a);
            let high = self.inst(Scalar::U32, "shr.u32", &[&bits, "16"]);
            self.line(&format!("cvt.u16.u32 {half}, {high}"));
        }
        half
    }

    /// The bits of an f32 rounded to the nearest bf16: half of what is cut off is added, less one
    /// if the last bit that stays is even. (The instruction for it came with a later device than
    /// the oldest.)
    pub(super) fn bf16_bits(&mut self, a: &str) -> Register {
        let word = Scalar::U32;
        if self.rounds_bf16 {
            let half = self.bf16_of(a);
            let wide = self.inst(word, "cvt.u32.u16", &[&half]);
            return self.inst(word, "shl.b32", &[&wide, "16"]);
        }
        let bits = self.inst(word, "mov.b32", &[a]);
        let last = self.inst(word, "shr.u32", &[&bits, "16"]);
        let odd = self.inst(word, "and.b32", &[&last, "1"]);
        let more = self.inst(word, "add.u32", &[&odd, "0x7FFF"]);
        let sum = self.inst(word, "add.u32", &[&bits, &more]);
        let cut = self.inst(word, "and.b32", &[&sum, "0xFFFF0000"]);
        // A NaN could become infinity by the addition.
        let nan = self.inst(Scalar::Bool, "setp.nan.f32", &[a, a]);
        self.inst(word, "selp.b32", &["0x7FC00000", &cut, &nan])
    }
}
