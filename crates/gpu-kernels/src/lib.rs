//! The kernels of elinvar: functions from a description to a kernel, and from shapes to its launch.
//!
//! A kernel's bits do not depend on its form (vectors or not, which tile, 32-bit or 64-bit indices); forms are chosen for
//! speed alone, by whoever launches. Each file begins with what its kernel computes.
//!
//! A kind of work is a function from layouts, dtypes and attributes to a [`Work`], one launch, or to [`LaunchSequence`], several. Buffers
//! are operands in the order of `Backend`, then results; what else a launch needs is said there. An index that is not in range
//! leaves 1 in a buffer `refused`, which is 0 before.

#![forbid(unsafe_code)]

pub mod attention;
pub mod conv;
pub mod elementwise;
pub mod formula;
pub mod gemm;
pub mod index;
pub mod launch;
pub mod layout;
pub mod pool;
pub mod reduce;

pub use formula::{Compute, Formula};
pub use launch::{
    BufferSlot, BufferSpec, ComputeUnits, Key, LaunchSequence, MAX_GROUPS, SequenceStep, Work, grid,
};
