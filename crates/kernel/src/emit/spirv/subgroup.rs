//! SPIR-V: subgroup operations. The subgroup's size is the one that the kernel asked for.

use super::Emitter;
use super::code::{Code, REDUCE, Scope};
use super::module::Word;
use crate::ir::{Reduce, Scalar, Type, Value};

impl Emitter<'_> {
    pub(super) fn shuffle(&mut self, v: Value, lane: Value) -> Word {
        let size = self.k.subgroup.expect("the verifier has seen to it");
        let (uint, mask) = (self.word(Type::U32), self.uint(size - 1));
        let lane = self.id(lane);
        let lane = self.inst(Code::BitwiseAnd, uint, &[lane, mask]);
        let (ty, scope, v) = (self.word(self.ty(v)), self.uint(Scope::Subgroup as u32), self.id(v));
        self.inst(Code::GroupNonUniformShuffle, ty, &[scope, v, lane])
    }

    pub(super) fn broadcast(&mut self, v: Value, lane: u8) -> Word {
        let (ty, scope, v) = (self.word(self.ty(v)), self.uint(Scope::Subgroup as u32), self.id(v));
        let lane = self.uint(u32::from(lane));
        self.inst(Code::GroupNonUniformBroadcast, ty, &[scope, v, lane])
    }

    pub(super) fn reduce(&mut self, op: Reduce, v: Value) -> Word {
        let s = self.scalar(v);
        assert!(!s.is_float(), "{}: a reduction of floats is lowered before", self.k.name);
        let code = match op {
            Reduce::And | Reduce::Min if s == Scalar::Bool => Code::GroupNonUniformLogicalAnd,
            Reduce::Or | Reduce::Max if s == Scalar::Bool => Code::GroupNonUniformLogicalOr,
            Reduce::Add => Code::GroupNonUniformIAdd,
            Reduce::Min if s.is_signed() => Code::GroupNonUniformSMin,
            Reduce::Min => Code::GroupNonUniformUMin,
            Reduce::Max if s.is_signed() => Code::GroupNonUniformSMax,
            Reduce::Max => Code::GroupNonUniformUMax,
            Reduce::And => Code::GroupNonUniformBitwiseAnd,
            Reduce::Or => Code::GroupNonUniformBitwiseOr,
        };
        let (ty, scope, v) = (self.word(self.ty(v)), self.uint(Scope::Subgroup as u32), self.id(v));
        self.inst(code, ty, &[scope, REDUCE, v])
    }
}
