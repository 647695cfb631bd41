//! The CPU backend: the bits of the reference, with vector instructions and threads.
//!
//! Kernels read host memory through `View`, as the reference does. What is not written for speed
//! runs the reference's own loops on the same memory; each such line of `backend.rs` says
//! `Reference::`.
//!
//! * [`Isa`]: the instruction set, detected at run time; kernels are compiled once for each.
//! * [`CpuDevice`]: an instruction set and a number of threads. Neither changes a bit of a result.
//! * [`CpuBuffer`]: the elements of a tensor, in pooled memory (`runtime/memory.rs`), or a deferred
//!   computation (`lazy/`), so that several maps are fused into one pass.
//!
//! Which path a problem takes is decided by a plan (`*/plan.rs`), a pure function of the problem
//! and the processor (`machine.rs`); `ELINVAR_EXPLAIN=1` prints it.
//!
//! Layers, from the bottom: crate `simd` (instruction sets, vector registers), `runtime` (threads,
//! memory, output partition), `layout` and `elementwise`, `lazy`, then the op families `reduce`,
//! `sort`, `pool`, `index`, `gemm`, `conv`, `attention`, `fft`, `linalg`, and on top `backend`.

mod attention;
mod backend;
mod conv;
mod elementwise;
mod fft;
mod gemm;
mod index;
mod layout;
mod lazy;
mod linalg;
mod machine;
#[cfg(all(test, target_arch = "x86_64"))]
mod plan_table;
mod pool;
mod reduce;
mod runtime;
mod sort;
mod view;

pub use elinvar_simd::isa::Isa;
pub use lazy::buffer::CpuBuffer;
pub use runtime::device::{Cpu, CpuDevice};
