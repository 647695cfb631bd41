//! The CPU backend: the bits of the reference, with vector instructions and threads.
//!
//! Kernels look at host memory (`View`), as the reference does, so what is not written for speed yet runs the
//! reference's own loops on the same memory, by name: each such line of `backend.rs` says `Reference::`.
//!
//! * [`Isa`]: which instructions; found out at run time, one compiled copy of each kernel for each.
//! * [`CpuDevice`]: an instruction set and a number of threads. Neither changes a bit.
//! * [`CpuBuffer`]: a tensor's numbers, in memory that is kept for the next tensor (`runtime/memory.rs`), or put off until somebody
//!   reads them, so that several maps take one pass (`lazy/fusion.rs`).
//!
//! Which path a problem takes is said by a plan (`*/plan.rs`), from the problem and the processor (`machine.rs`);
//! `explain.rs` prints it.

mod attention;
mod backend;
mod conv;
mod device;
mod elementwise;
mod explain;
mod gemm;
mod index;
mod layout;
mod lazy;
mod machine;
#[cfg(all(test, target_arch = "x86_64"))]
mod plan_table;
mod pool;
mod reduce;
mod runtime;
mod sort;

pub use backend::Cpu;
pub use device::CpuDevice;
pub use elinvar_simd::isa::Isa;
pub use lazy::buffer::CpuBuffer;
