//! Elementwise work: maps, in-place updates, random numbers, dtype conversion, and the vector loop
//! that runs their formulas.

pub(crate) mod cast;
pub(crate) mod convert;
mod element;
pub(crate) mod fill;
pub(crate) mod kernels;
pub(crate) mod operand;
pub(crate) mod plan;
pub(crate) mod random;
pub(crate) mod real;
pub(crate) mod update;
pub(crate) mod wide_operands;
