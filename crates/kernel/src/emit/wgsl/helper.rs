//! WGSL: operations that take many instructions to build, as functions of a module.
//!
//! A function is a small kernel: its parameters are the operands, and what it stores is the result.
//! It is lowered by the same passes that would lower the operation in its place, and those are
//! tested by the interpreter; only that it is written once makes the text shorter, by a factor of a
//! hundred where a formula has that many multiply-adds.

use super::{Emitter, Target};
use crate::builder::{Builder, Val};
use crate::ir::{Access, Binary, Elem, Kernel, Scalar, Unary};
use crate::pass::{self, Unsupported};
use std::fmt::Write;

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
    fn operands(self) -> usize {
        match self {
            Helper::Sqrt => 1,
            Helper::Add | Helper::Sub | Helper::Mul | Helper::Div => 2,
            Helper::MulHigh | Helper::MulHighSigned => 2,
            Helper::Fma => 3,
        }
    }
    /// The type, as what memory holds and as what is computed with.
    fn types(self) -> (Elem, Scalar) {
        match self {
            Helper::MulHigh => (Elem::U32, Scalar::U32),
            Helper::MulHighSigned => (Elem::I32, Scalar::I32),
            Helper::Add | Helper::Sub | Helper::Mul | Helper::Div | Helper::Sqrt | Helper::Fma => {
                (Elem::F32, Scalar::F32)
            }
        }
    }

    /// The operation as a kernel.
    fn kernel(self) -> Kernel {
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

    /// The function.
    pub fn text(self, target: &Target) -> Result<String, Unsupported> {
        let mut k = self.kernel();
        pass::lower(&mut k, target.legalize_helper());
        pass::optimize(&mut k);
        let mut e = Emitter::new(&k, target);
        e.is_helper = true;
        e.region(&k.body)?;
        let ty = super::scalar_name(self.types().1);
        let params: Vec<String> = (0..self.operands()).map(|i| format!("x{i}: {ty}")).collect();
        let mut all = String::new();
        let _ = writeln!(all, "fn {}({}) -> {ty} {{\n{}}}", self.name(), params.join(", "), e.out);
        Ok(all)
    }
}
