//! Elementwise work: maps, in-place updates, random numbers, dtype conversion, and the vector loop
//! that runs their formulas.

pub(crate) mod convert;
pub(crate) mod kernels;
pub(crate) mod map;
pub(crate) mod operand;
pub(crate) mod random;
pub(crate) mod update;
