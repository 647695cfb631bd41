//! SPIR-V: conversions. Floats that become integers fit: lowering has seen to it.

use super::Emitter;
use super::code::Code;
use super::module::Word;
use crate::ir::{Constant, Scalar, Type, Value};

impl Emitter<'_> {
    pub(super) fn convert(&mut self, to: Scalar, a: Value) -> Word {
        let (t, from) = (self.ty(a), self.scalar(a));
        let (ty, x) = (self.word(t.of(to)), self.id(a));
        if to == Scalar::Bool {
            let zero = self.constant_like(t, Constant::int(from, 0));
            let code = if from.is_float() { Code::FUnordNotEqual } else { Code::INotEqual };
            return self.inst(code, ty, &[x, zero]);
        }
        if from == Scalar::Bool {
            let [one, zero] = [1, 0].map(|v| self.constant_like(t, Constant::int(to, v)));
            return self.inst(Code::Select, ty, &[x, one, zero]);
        }
        let code = match (from.is_float(), to.is_float()) {
            // Not even a conversion and the one back may be left out: the first one rounds.
            (true, true) => return self.exact(Code::FConvert, ty, &[x]),
            (true, false) if to.is_signed() => Code::ConvertFToS,
            (true, false) => Code::ConvertFToU,
            (false, true) if from.is_signed() => Code::ConvertSToF,
            (false, true) => Code::ConvertUToF,
            // The same bits, which have no sign here.
            (false, false) if from.bits() == to.bits() => return x,
            (false, false) if from.is_signed() => Code::SConvert,
            (false, false) => Code::UConvert,
        };
        self.inst(code, ty, &[x])
    }

    /// The same bits as another type.
    pub(super) fn bits(&mut self, to: Type, a: Value) -> Word {
        let (from, to) = (self.word(self.ty(a)), self.word(to));
        let x = self.id(a);
        if from == to { x } else { self.inst(Code::Bitcast, to, &[x]) }
    }
}
