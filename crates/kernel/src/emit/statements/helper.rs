//! Languages of statements: operations that take many instructions to build, as functions of a
//! module.
//!
//! A function is a small kernel: its parameters are the operands, and what it stores is the result.
//! It is lowered by the same passes that would lower the operation in its place, and those are
//! tested by the interpreter; only that it is written once makes the text shorter, by a factor of a
//! hundred where a formula has that many multiply-adds.

use crate::builder::{Builder, Val};
use crate::ir::{Access, Binary, Elem, Kernel, Op, Scalar, Unary, Value};

/// An operation on numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Helper {
    Add,
    Sub,
    Mul,
    Div,
    Sqrt,
    Fma,
    MulHigh,
    MulHighSigned,
}

impl Helper {
    /// What an instruction is, if it is one of them.
    pub fn of(op: &Op, scalar: impl Fn(Value) -> Scalar) -> Option<Helper> {
        match *op {
            Op::Unary(Unary::Sqrt, _) => Some(Helper::Sqrt),
            Op::Fma(..) => Some(Helper::Fma),
            Op::Binary(Binary::MulHigh, a, _) if scalar(a).is_signed() => Some(Helper::MulHighSigned),
            Op::Binary(Binary::MulHigh, ..) => Some(Helper::MulHigh),
            Op::Binary(op, a, _) if scalar(a).is_float() => match op {
                Binary::Add => Some(Helper::Add),
                Binary::Sub => Some(Helper::Sub),
                Binary::Mul => Some(Helper::Mul),
                Binary::Div => Some(Helper::Div),
                _ => None,
            },
            _ => None,
        }
    }
    /// Of the function.
    pub fn name(self) -> &'static str {
        match self {
            Helper::Add => "exact_add",
            Helper::Sub => "exact_sub",
            Helper::Mul => "exact_mul",
            Helper::Div => "exact_div",
            Helper::Sqrt => "exact_sqrt",
            Helper::Fma => "exact_fma",
            Helper::MulHigh => "mul_high_u32",
            Helper::MulHighSigned => "mul_high_i32",
        }
    }
    /// How many it takes.
    pub fn operands(self) -> usize {
        match self {
            Helper::Sqrt => 1,
            Helper::Add | Helper::Sub | Helper::Mul | Helper::Div => 2,
            Helper::MulHigh | Helper::MulHighSigned => 2,
            Helper::Fma => 3,
        }
    }
    /// The type, as what memory holds and as what is computed with.
    pub fn types(self) -> (Elem, Scalar) {
        match self {
            Helper::MulHigh => (Elem::U32, Scalar::U32),
            Helper::MulHighSigned => (Elem::I32, Scalar::I32),
            Helper::Add | Helper::Sub | Helper::Mul | Helper::Div | Helper::Sqrt | Helper::Fma => {
                (Elem::F32, Scalar::F32)
            }
        }
    }

    /// The operation as a kernel.
    pub fn kernel(self) -> Kernel {
        let k = Builder::new(self.name(), [1, 1, 1]);
        let (elem, scalar) = self.types();
        let y = k.buffer("y", elem, Access::Write);
        let x: Vec<Val<'_>> = (0..self.operands()).map(|i| k.param(&format!("x{i}"), scalar)).collect();
        let result = match self {
            Helper::Add => x[0].binary(Binary::Add, x[1]),
            Helper::Sub => x[0].binary(Binary::Sub, x[1]),
            Helper::Mul => x[0].binary(Binary::Mul, x[1]),
            Helper::Div => x[0].binary(Binary::Div, x[1]),
            Helper::Sqrt => x[0].unary(Unary::Sqrt),
            Helper::Fma => x[0].fma(x[1], x[2]),
            Helper::MulHigh | Helper::MulHighSigned => x[0].binary(Binary::MulHigh, x[1]),
        };
        k.store(y, k.u32(0), result);
        k.finish()
    }
}
