//! Instruction sets and vector registers: nothing here knows of tensors, threads or ops.
//!
//! * [`isa`]: instruction sets, and the compiled copies of a kernel for each.
//! * [`vector`]: vector registers, and work that is written once for all of them; `x86` and `neon` have those of AVX2, AVX-512 and NEON.
//! * `amx`: tile registers of AMX.
//! * [`scalar_lane`], `avx512_lane`: formulas by element, and by registers of AVX-512; [`dispatch`]: which of them, by instruction set.
//! * [`compiled`]: formulas as objects, compiled once.
//! * [`quad`]: registers filled across rows (transposing loads), and 16-bit floats widened on the way.
//! * [`float_to_int`]: floats to integers, saturating.
//! * [`uninit`]: output that is written once; [`vector_loop`]: an elementwise formula over contiguous operands.
//! * [`prefetch`]: software prefetch.

#[cfg(target_arch = "x86_64")]
pub mod amx;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(
    debug_assertions,
    allow(dead_code, reason = "what is built to be debugged does not read by registers")
)]
mod avx512_lane;
pub mod compiled;
pub mod dispatch;
pub mod float_to_int;
pub mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod prefetch;
pub mod quad;
pub mod scalar_lane;
pub mod uninit;
pub mod vector;
pub mod vector_loop;
#[cfg(target_arch = "x86_64")]
pub mod x86;

/// What is loaded from two lines takes two loads.
pub use elinvar_core::host_vec::LINE;
