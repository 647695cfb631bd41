//! A stand-in for NVIDIA's driver library, so that everything above it is tested on machines
//! without a GPU.
//!
//! As a library of C functions (`libemulated_cuda.so`) it has those functions of `libcuda.so` that
//! the project loads, with the same names, types and rules: `ELINVAR_CUDA_LIBRARY` names it in the
//! place of NVIDIA's. As a crate it is the machine that runs PTX, for tests of what emits it.
//!
//! * `ptx`: a module's text, decoded once into a compact form; instructions that are not known are
//!   errors.
//! * `machine`: runs workgroups, a warp of 32 lanes at a time. What a device would do silently is a
//!   [`Fault`] here: accesses out of bounds of an allocation or not aligned, shared memory that is
//!   read before it is written, data races in a workgroup, barriers and exchanges that a part of
//!   the lanes reaches.
//! * `device`: memory, streams, events, modules. Work on a stream is kept until somebody waits for
//!   it, so a host that changes bytes too early, or frees memory too early, is seen.
//! * `product`: products of matrices, as cuBLASLt has them; `ELINVAR_CUBLASLT_LIBRARY` may name
//!   this library, too.
//! * `sys`: the C functions, and memory as raw bytes.
//!
//! Its clock counts instructions: a kernel that has fewer is faster, whatever the host does beside.
//!
//! What is not emulated: caches, memories of several devices (they share one), and data races
//! between workgroups (the interpreter of the kernel language finds those).
//!
//! The environment chooses what device it is: see [`settings`].

mod device;
mod machine;
mod product;
mod ptx;
pub mod settings;
mod sys;

pub use machine::tensor::TensorMap;
pub use machine::{Fault, FaultKind, Launch, Memory, run};
pub use ptx::{Program, Refused, parse};

use std::path::PathBuf;

/// Where the library of C functions lies, for a test of this workspace: beside the test's own
/// program, or in the directory above.
pub fn library() -> Option<PathBuf> {
    let name = format!("{}emulated_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe().ok()?;
    let beside = program.parent()?;
    [beside.join("deps"), beside.to_path_buf(), beside.parent()?.to_path_buf()]
        .into_iter()
        .map(|dir| dir.join(&name))
        .find(|path| path.is_file())
}
