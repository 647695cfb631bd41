//! SPIR-V: arithmetic and comparisons.

use super::Emitter;
use super::code::{Code, Decoration, GLOp};
use super::module::Word;
use crate::ir::{Binary, Compare, Constant, Scalar, Type, Unary, Value};
use crate::pass::Unsupported;

/// Two codes for integers: signed, unsigned.
fn by_sign(s: Scalar, signed: Code, unsigned: Code) -> Code {
    if s.is_signed() { signed } else { unsigned }
}

impl Emitter<'_> {
    /// An instruction of GLSL's set.
    pub(super) fn extended(&mut self, op: GLOp, ty: Word, operands: &[Word]) -> Word {
        let glsl = self.glsl;
        self.inst(Code::ExtInst, ty, &[&[glsl, op as u32], operands].concat())
    }
    /// A sum, product or conversion that must stay what it is.
    pub(super) fn exact(&mut self, code: Code, ty: Word, operands: &[Word]) -> Word {
        let id = self.inst(code, ty, operands);
        self.b.decorate(id, Decoration::NoContraction, &[]);
        id
    }

    pub(super) fn unary(&mut self, op: Unary, a: Value) -> Result<Word, Unsupported> {
        let (t, s) = (self.ty(a), self.scalar(a));
        let (ty, a) = (self.word(t), self.id(a));
        Ok(match op {
            Unary::Neg if s.is_float() => self.inst(Code::FNegate, ty, &[a]),
            Unary::Neg => self.inst(Code::SNegate, ty, &[a]),
            Unary::Not if s == Scalar::Bool => self.inst(Code::LogicalNot, ty, &[a]),
            Unary::Not => self.inst(Code::Not, ty, &[a]),
            Unary::Abs => self.extended(GLOp::FAbs, ty, &[a]),
            Unary::Sqrt => self.extended(GLOp::Sqrt, ty, &[a]),
            Unary::Floor => self.extended(GLOp::Floor, ty, &[a]),
            Unary::Ceil => self.extended(GLOp::Ceil, ty, &[a]),
            Unary::Trunc => self.extended(GLOp::Trunc, ty, &[a]),
            Unary::Round => self.extended(GLOp::RoundEven, ty, &[a]),
            Unary::Exp2 => unreachable!("it is lowered before"),
            Unary::RoundF16 => self.round_f16(t, a),
            Unary::RoundBF16 => {
                let bits = self.round_bf16(t, a);
                self.inst(Code::Bitcast, ty, &[bits])
            }
        })
    }

    pub(super) fn binary(&mut self, op: Binary, a: Value, b: Value) -> Result<Word, Unsupported> {
        let (t, s) = (self.ty(a), self.scalar(a));
        let (ty, x, y) = (self.word(t), self.id(a), self.id(b));
        let float = s.is_float();
        let bool = s == Scalar::Bool;
        Ok(match op {
            Binary::Add if float => self.exact(Code::FAdd, ty, &[x, y]),
            Binary::Sub if float => self.exact(Code::FSub, ty, &[x, y]),
            Binary::Mul if float => self.exact(Code::FMul, ty, &[x, y]),
            Binary::Div if float => self.exact(Code::FDiv, ty, &[x, y]),
            Binary::Add => self.inst(Code::IAdd, ty, &[x, y]),
            Binary::Sub => self.inst(Code::ISub, ty, &[x, y]),
            Binary::Mul => self.inst(Code::IMul, ty, &[x, y]),
            Binary::Div => self.inst(by_sign(s, Code::SDiv, Code::UDiv), ty, &[x, y]),
            Binary::Min | Binary::And if bool => self.inst(Code::LogicalAnd, ty, &[x, y]),
            Binary::Max | Binary::Or if bool => self.inst(Code::LogicalOr, ty, &[x, y]),
            Binary::Xor if bool => self.inst(Code::LogicalNotEqual, ty, &[x, y]),
            Binary::Min if s.is_int() => {
                self.extended(if s.is_signed() { GLOp::SMin } else { GLOp::UMin }, ty, &[x, y])
            }
            Binary::Max if s.is_int() => {
                self.extended(if s.is_signed() { GLOp::SMax } else { GLOp::UMax }, ty, &[x, y])
            }
            Binary::And => self.inst(Code::BitwiseAnd, ty, &[x, y]),
            Binary::Or => self.inst(Code::BitwiseOr, ty, &[x, y]),
            Binary::Xor => self.inst(Code::BitwiseXor, ty, &[x, y]),
            Binary::Shl => self.inst(Code::ShiftLeftLogical, ty, &[x, y]),
            Binary::Shr => {
                self.inst(by_sign(s, Code::ShiftRightArithmetic, Code::ShiftRightLogical), ty, &[x, y])
            }
            Binary::MulHigh => {
                let pair = self.b.declare(Code::TypeStruct, &[ty, ty]);
                let both = self.inst(by_sign(s, Code::SMulExtended, Code::UMulExtended), pair, &[x, y]);
                self.inst(Code::CompositeExtract, ty, &[both, 1])
            }
            Binary::Rem | Binary::Min | Binary::Max | Binary::CopySign => {
                unreachable!("{op:?} of {s} is lowered before")
            }
        })
    }

    /// A choice. Between two float constants it goes through disguised bits: Mesa 22.3 takes a
    /// choice between 0 and -1 for the negative of 0 or 1, and so gives -0 for 0.
    pub(super) fn select(&mut self, c: Value, a: Value, b: Value) -> Word {
        /// Any number that makes no 0 or 1 of the usual constants.
        const DISGUISE: u32 = 0x2545_f491;
        let (t, s) = (self.ty(a), self.scalar(a));
        let (ty, c, x, y) = (self.word(t), self.id(c), self.id(a), self.id(b));
        let both = self.fixed[a.0 as usize] && self.fixed[b.0 as usize];
        if !(s.is_float() && both) {
            return self.inst(Code::Select, ty, &[c, x, y]);
        }
        let word = t.of(if s.bits() == 64 { Scalar::U64 } else { Scalar::U32 });
        let scalar = word.scalar().expect("a vector");
        let disguise = self.constant_like(word, Constant::int(scalar, i64::from(DISGUISE)));
        let word = self.word(word);
        let [x, y] = [x, y].map(|v| {
            let bits = self.inst(Code::Bitcast, word, &[v]);
            self.inst(Code::BitwiseXor, word, &[bits, disguise])
        });
        let chosen = self.inst(Code::Select, word, &[c, x, y]);
        let bits = self.inst(Code::BitwiseXor, word, &[chosen, disguise]);
        self.inst(Code::Bitcast, ty, &[bits])
    }

    pub(super) fn fma(&mut self, a: Value, b: Value, c: Value) -> Word {
        let ty = self.word(self.ty(a));
        let all = [a, b, c].map(|v| self.id(v));
        let id = self.extended(GLOp::Fma, ty, &all);
        // As `precise` in GLSL: it stays one operation.
        self.b.decorate(id, Decoration::NoContraction, &[]);
        id
    }

    pub(super) fn compare(&mut self, op: Compare, a: Value, b: Value) -> Word {
        let (t, s) = (self.ty(a), self.scalar(a));
        let ty = self.word(t.of(Scalar::Bool));
        let (x, y) = (self.id(a), self.id(b));
        if s == Scalar::Bool {
            return self.compare_bool(op, ty, x, y);
        }
        let code = match (op, s.is_float()) {
            (Compare::Eq, true) => Code::FOrdEqual,
            (Compare::Ne, true) => Code::FUnordNotEqual,
            (Compare::Lt, true) => Code::FOrdLessThan,
            (Compare::Le, true) => Code::FOrdLessThanEqual,
            (Compare::Gt, true) => Code::FOrdGreaterThan,
            (Compare::Ge, true) => Code::FOrdGreaterThanEqual,
            (Compare::Eq, false) => Code::IEqual,
            (Compare::Ne, false) => Code::INotEqual,
            (Compare::Lt, false) => by_sign(s, Code::SLessThan, Code::ULessThan),
            (Compare::Le, false) => by_sign(s, Code::SLessThanEqual, Code::ULessThanEqual),
            (Compare::Gt, false) => by_sign(s, Code::SGreaterThan, Code::UGreaterThan),
            (Compare::Ge, false) => by_sign(s, Code::SGreaterThanEqual, Code::UGreaterThanEqual),
        };
        self.inst(code, ty, &[x, y])
    }

    /// False is less than true.
    fn compare_bool(&mut self, op: Compare, ty: Word, x: Word, y: Word) -> Word {
        let mut not = |v: Word| self.inst(Code::LogicalNot, ty, &[v]);
        let (code, x, y) = match op {
            Compare::Eq => (Code::LogicalEqual, x, y),
            Compare::Ne => (Code::LogicalNotEqual, x, y),
            Compare::Lt => (Code::LogicalAnd, not(x), y),
            Compare::Le => (Code::LogicalOr, not(x), y),
            Compare::Gt => (Code::LogicalAnd, x, not(y)),
            Compare::Ge => (Code::LogicalOr, x, not(y)),
        };
        self.inst(code, ty, &[x, y])
    }

    /// An f32 through f16 and back.
    fn round_f16(&mut self, t: Type, a: Word) -> Word {
        let half = self.float(16);
        let (half, wide) = match t.width() {
            1 => (half, self.word(t)),
            w => (self.b.declare(Code::TypeVector, &[half, u32::from(w)]), self.word(t)),
        };
        let h = self.inst(Code::FConvert, half, &[a]);
        self.inst(Code::FConvert, wide, &[h])
    }

    /// The bits of an f32 rounded to the nearest bf16: half of what is cut off is added, less one
    /// if the last bit that stays is even.
    pub(super) fn round_bf16(&mut self, t: Type, a: Word) -> Word {
        let word = t.of(Scalar::U32);
        let (ty, bool) = (self.word(word), self.word(t.of(Scalar::Bool)));
        let mut lit = |v: u32| self.constant_like(word, Constant::from(v));
        let (half, one, sixteen, mask, quiet) =
            (lit(0x7fff), lit(1), lit(16), lit(0xffff_0000), lit(0x7fc0_0000));
        let bits = self.inst(Code::Bitcast, ty, &[a]);
        let last = self.inst(Code::ShiftRightLogical, ty, &[bits, sixteen]);
        let odd = self.inst(Code::BitwiseAnd, ty, &[last, one]);
        let more = self.inst(Code::IAdd, ty, &[half, odd]);
        let sum = self.inst(Code::IAdd, ty, &[bits, more]);
        let cut = self.inst(Code::BitwiseAnd, ty, &[sum, mask]);
        // A NaN could become infinity by the addition.
        let nan = self.inst(Code::FUnordNotEqual, bool, &[a, a]);
        self.inst(Code::Select, ty, &[nan, quiet, cut])
    }
}
