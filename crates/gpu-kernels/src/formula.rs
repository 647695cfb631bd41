//! Formulas of the catalogue as code generators: what maps, epilogues and fused chains write into a
//! kernel.
//!
//! A formula is generic over its number type; [`Formula`] erases that type, so that kernels hold a
//! list of them. [`MapChain`] is elementwise fusion: several maps on one element while it is in a
//! register.

use crate::elementwise::map::ElementCode;
use crate::launch::key::Key;
use elinvar_core::{DType, storage};
use elinvar_kernel::builder::{Builder, Val};
use elinvar_kernel::ir::{Elem, Scalar, Unary};
use elinvar_kernel::lane::{Float, Integer, KindBool, KindI32, KindI64, KindU8, Term, W32, W64};
use elinvar_ops::int::Int;
use elinvar_ops::map::{IntMapObject, MapObject, Out};

/// A type in which formulas compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compute {
    /// f32, also for f16 and bf16.
    F32,
    /// f64
    F64,
    /// i64
    I64,
    /// i32
    I32,
    /// u8, in a u32
    U8,
    /// bool
    Bool,
}

impl Compute {
    /// The scalar.
    pub const fn scalar(self) -> Scalar {
        match self {
            Compute::F32 => Scalar::F32,
            Compute::F64 => Scalar::F64,
            Compute::I64 => Scalar::I64,
            Compute::I32 => Scalar::I32,
            Compute::U8 => Scalar::U32,
            Compute::Bool => Scalar::Bool,
        }
    }
    /// What a loaded value is to a formula: bool is 0 or 1.
    pub fn enter(self, v: Val<'_>) -> Val<'_> {
        v.to(self.scalar())
    }
}

impl From<DType> for Compute {
    fn from(d: DType) -> Compute {
        match d {
            DType::F32 | storage!(DType) => Compute::F32,
            DType::F64 => Compute::F64,
            DType::I64 => Compute::I64,
            DType::I32 => Compute::I32,
            DType::U8 => Compute::U8,
            DType::Bool => Compute::Bool,
        }
    }
}

/// A formula that writes its instructions into a kernel.
pub trait Formula {
    /// A word for kernels.
    fn name(&self) -> String;
    /// The key of a kernel that this formula is in, from the key of what is around it.
    fn key(&self, around: Key) -> Key;
    /// How many operands.
    fn arity(&self) -> usize;
    /// What its result is stored as.
    fn out(&self) -> Out;
    /// Is it a few operations on floats, none of which is an elementary function?
    fn is_light(&self) -> bool;
    /// The result from operands of the computed type, all of one width.
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Val<'k>;
}

/// A map on floats.
#[derive(Debug)]
pub struct FloatFormula(pub Box<dyn MapObject>);

impl Formula for FloatFormula {
    fn name(&self) -> String {
        self.0.name().to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with(&self.0.key())
    }
    fn arity(&self) -> usize {
        self.0.arity()
    }
    fn out(&self) -> Out {
        self.0.out()
    }
    fn is_light(&self) -> bool {
        self.0.info().hints.light
    }
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Val<'k> {
        match c {
            Compute::F32 => {
                let x: Vec<Float<'k, W32>> = x.iter().map(|&x| Float::new(Term::Value(x))).collect();
                self.0.record(32).replay_one(&x).0.value(k)
            }
            Compute::F64 => {
                let x: Vec<Float<'k, W64>> = x.iter().map(|&x| Float::new(Term::Value(x))).collect();
                self.0.record(64).replay_one(&x).0.value(k)
            }
            Compute::I64 | Compute::I32 | Compute::U8 | Compute::Bool => {
                unreachable!("{}: a formula on floats, not {c:?}", self.0.name())
            }
        }
    }
}

/// A map on integers and bool.
#[derive(Debug)]
pub struct IntFormula(pub Box<dyn IntMapObject>);

impl Formula for IntFormula {
    fn name(&self) -> String {
        self.0.name().to_string()
    }
    fn key(&self, around: Key) -> Key {
        around.with(&self.0.key())
    }
    fn arity(&self) -> usize {
        self.0.arity()
    }
    fn out(&self) -> Out {
        self.0.out()
    }
    fn is_light(&self) -> bool {
        // A quotient of 64 bits may be built of words.
        false
    }
    fn emit<'k>(&self, k: &'k Builder, c: Compute, x: &[Val<'k>]) -> Val<'k> {
        macro_rules! kind {
            ($kind:ty) => {{
                let x: Vec<Integer<'k, $kind>> = x.iter().map(|&x| Integer::new(Term::Value(x))).collect();
                self.0.record().replay_one(&x).0.value(k)
            }};
        }
        match c {
            Compute::I64 => kind!(KindI64),
            Compute::I32 => kind!(KindI32),
            Compute::U8 => kind!(KindU8),
            Compute::Bool => kind!(KindBool),
            Compute::F32 | Compute::F64 => {
                unreachable!("{}: a formula on integers, not {c:?}", self.0.name())
            }
        }
    }
}

/// What a formula's result is before it is stored: bool if it gives bool, as many numbers as
/// `width`.
pub fn leave<'k>(v: Val<'k>, out: Out, c: Compute, width: u8) -> Val<'k> {
    // A formula that does not look at its operands gives one constant.
    let v = v.splat(width);
    match (out, c) {
        (Out::Same, _) => v,
        (Out::Bool, Compute::U8) => Integer::<KindU8>::new(Term::Value(v)).is_true().0.value(v.builder()),
        (Out::Bool, _) => v.to(Scalar::Bool),
    }
}

/// Where a step of a chain finds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainInput {
    /// Operand of the whole chain.
    Operand(usize),
    /// What an earlier step gave.
    Step(usize),
}

/// One formula of a chain.
pub struct ChainStep<'a> {
    /// The formula.
    pub formula: &'a dyn Formula,
    /// Its operands.
    pub operands: Vec<ChainInput>,
    /// The dtype of the tensors in this step. All steps of a chain compute in one type.
    pub dtype: DType,
}

/// Maps that run one after the other on an element while it is in a register: intermediate results
/// are rounded as if it had been stored.
pub struct MapChain<'a> {
    /// The formulas, each after those that it reads.
    pub steps: Vec<ChainStep<'a>>,
    /// In what is computed.
    pub compute: Compute,
    /// The steps whose results are stored.
    pub keeps: Vec<usize>,
}

impl MapChain<'_> {
    /// What the results hold, in the order of `keeps`.
    pub fn outs(&self) -> Vec<Elem> {
        let out = |step: &ChainStep<'_>| match step.formula.out() {
            Out::Same => Elem::from(step.dtype),
            Out::Bool => Elem::Bool,
        };
        self.keeps.iter().map(|&i| out(&self.steps[i])).collect()
    }
}

impl ElementCode for MapChain<'_> {
    fn name(&self) -> String {
        let all: Vec<String> = self.steps.iter().map(|s| s.formula.name()).collect();
        all.join("_")
    }
    fn key(&self, around: Key) -> Key {
        let each = |key: Key, s: &ChainStep<'_>| s.formula.key(key.with(&(&s.operands, s.dtype)));
        self.steps.iter().fold(around.with(&(self.steps.len(), self.compute, &self.keeps)), each)
    }
    fn emit<'k>(&self, k: &'k Builder, x: &[Val<'k>], width: u8) -> Vec<Val<'k>> {
        let c = self.compute;
        let x: Vec<Val<'k>> = x.iter().map(|&v| c.enter(v)).collect();
        // What each step gives to others, and what of it is stored.
        let (mut given, mut stored): (Vec<Val<'k>>, Vec<Val<'k>>) = (Vec::new(), Vec::new());
        for step in &self.steps {
            let operands: Vec<Val<'k>> = (step.operands.iter())
                .map(|from| match *from {
                    ChainInput::Operand(i) => x[i],
                    ChainInput::Step(i) => given[i],
                })
                .collect();
            let y = leave(step.formula.emit(k, c, &operands), step.formula.out(), c, width);
            stored.push(y);
            given.push(c.enter(match (step.formula.out(), Elem::from(step.dtype)) {
                (Out::Same, Elem::F16) => y.unary(Unary::RoundF16),
                (Out::Same, Elem::BF16) => y.unary(Unary::RoundBF16),
                (Out::Same | Out::Bool, _) => y,
            }));
        }
        self.keeps.iter().map(|&i| stored[i]).collect()
    }
}
