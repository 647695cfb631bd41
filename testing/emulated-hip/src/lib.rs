//! A stand-in for AMD's driver library and compiler library, so that everything above them is
//! tested on machines without a GPU.
//!
//! As a library of C functions (`libemulated_hip.so`) it has those functions of `libamdhip64.so`
//! and of `libamd_comgr.so` that the project loads, with the same names, types and rules:
//! `ELINVAR_HIP_LIBRARY` and `ELINVAR_COMGR_LIBRARY` name it in place of AMD's. Matrix products
//! are there, too, as in hipBLASLt; `ELINVAR_HIPBLASLT_LIBRARY` may name it. As a crate it is an
//! interpreter of LLVM IR for AMD's devices, for tests of that emitter.
//!
//! * `llvm`: decodes the text of a module once; whatever the emitter does not write is an error.
//! * `sys`: the C functions.
//!
//! The machine that runs it, memory and streams are in the crate `emulated-gpu`. What differs from
//! a real device: NaN has the bits of NVIDIA's, and a wave has no caches.
//!
//! The environment selects the device: see [`settings`].

mod llvm;
pub mod settings;
mod sys;

pub use emulated_gpu::machine::{Fault, FaultKind, Launch, Memory, run};
pub use llvm::parse;

use std::path::PathBuf;

/// The path of the library of C functions, for a test of this workspace.
pub fn library() -> Option<PathBuf> {
    emulated_gpu::library("emulated_hip")
}
