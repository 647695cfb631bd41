//! The library of GPU kernels: elementwise, reduction, GEMM, convolution, attention, pooling and
//! index kernels.
//!
//! Each kernel is a function from layouts, dtypes and attributes to a [`Work`] (one launch) or a
//! [`LaunchSequence`] (several). A work has a key; the kernel is built only if its key is new.
//! Buffers are operands in the order of `Backend`, then results; a file says what else its launch
//! needs. An index out of range leaves 1 in the buffer `refused`, which is 0 before.
//!
//! The configuration of a kernel (tile, vector width, 32-bit or 64-bit indices, split-K) is chosen
//! for speed alone: no bit of a result depends on it. Work that was asked for with
//! `Precision::Fast` is the exception, and its files say what its bits depend on.
//!
//! * `elementwise`: maps, updates in place, constants, random numbers. `layout`: copies, casts,
//!   transposes, index arithmetic.
//! * `reduce`: folds, scans, row-wise ops. `index`: gather, scatter, sort, nonzero. `pool`:
//!   pooling.
//! * `gemm`: matrix products, from one thread tile to TMA and wgmma. `conv`: direct convolution and
//!   implicit GEMM. `attention`: flash attention.
//! * `launch`: kernel keys, launch arguments, sequences of launches, occupancy, `Machine`.
//!
//! Which path a problem takes is decided by a plan (`*/plan.rs`), a pure function of the problem
//! and the device (`launch/machine.rs`), and the one home of thresholds.

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
    BufferSlot, BufferSpec, ComputeUnits, Key, LaunchSequence, MAX_GROUPS, Machine, Plan, SequenceStep, Work,
    grid,
};
