//! SIMD: instruction sets and vector registers. Independent of tensors, threads and ops.
//!
//! * [`isa`]: instruction sets, detection at run time, and one compiled version of a kernel for
//!   each (function multiversioning).
//! * [`vector`]: the vector register trait, and kernels written once for all register widths;
//!   `x86`, `neon` and `wasm` implement it for AVX2, AVX-512, NEON and WebAssembly's simd128.
//! * `amx`: tile registers of Intel AMX.
//! * [`scalar_lane`], `register_lane`: formulas evaluated one element at a time (autovectorised) or
//!   on registers of AVX2 and AVX-512; [`dispatch`]: which of them runs, by instruction set.
//! * [`quad`]: registers filled across rows (transposing loads), and f16 / bf16 widened on load.
//! * [`float_to_int`]: saturating conversions from float to integer.
//! * [`uninit`]: uninitialised output that is written once; [`vector_loop`]: the elementwise vector
//!   loop.
//! * [`row_loop`]: the vector loops of row-wise formulas.
//! * [`compiled`], [`compiled_rows`], [`compiled_epilogue`], [`compiled_update`]: formulas as
//!   objects, compiled once.
//! * [`prefetch`]: software prefetch into L1 and L2.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of a register's functions stands once, at its trait or type"
)]
#![allow(clippy::new_without_default, reason = "an empty block is asked for by name")]

#[cfg(target_arch = "x86_64")]
pub mod amx;
pub mod compiled;
pub mod compiled_epilogue;
pub mod compiled_rows;
pub mod compiled_update;
pub mod dispatch;
pub mod float_to_int;
pub mod isa;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod prefetch;
pub mod quad;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(
    debug_assertions,
    allow(dead_code, reason = "what is built to be debugged does not read by registers")
)]
mod register_lane;
pub mod row_loop;
pub mod scalar_lane;
pub mod uninit;
pub mod vector;
pub mod vector_loop;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub mod wasm;
#[cfg(target_arch = "x86_64")]
pub mod x86;

/// A load that crosses a cache line counts as two.
pub use elinvar_core::host_vec::LINE;
