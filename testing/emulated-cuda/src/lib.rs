//! A stand-in for NVIDIA's driver library, so that everything above it is tested on machines
//! without a GPU.
//!
//! As a library of C functions (`libemulated_cuda.so`) it has those functions of `libcuda.so` that
//! the project loads, with the same names, types and rules: `ELINVAR_CUDA_LIBRARY` names it in
//! place of NVIDIA's. As a crate it is an interpreter of PTX, for tests of the PTX emitter.
//!
//! * `ptx`: decodes the text of a module once; unknown instructions are errors.
//! * `sys`: the C functions.
//!
//! The machine that runs it, memory and streams are in the crate `emulated-gpu`. Matrix products
//! are there, too, as in cuBLASLt; `ELINVAR_CUBLASLT_LIBRARY` may name this library.
//!
//! The environment selects the device: see [`settings`].

mod ptx;
pub mod settings;
mod sys;

pub use emulated_gpu::machine::tensor::TensorMap;
pub use emulated_gpu::machine::{Fault, FaultKind, Launch, Memory, run};
pub use ptx::{Module, Refused, parse};

use std::path::PathBuf;

/// The path of the library of C functions, for a test of this workspace.
pub fn library() -> Option<PathBuf> {
    emulated_gpu::library("emulated_cuda")
}
