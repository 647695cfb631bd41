//! A stand-in for NVIDIA's driver library, so that everything above it is tested on machines
//! without a GPU.
//!
//! As a library of C functions (`libemulated_cuda.so`) it has those functions of `libcuda.so` that
//! the project loads, with the same names, types and rules: `ELINVAR_CUDA_LIBRARY` names it in
//! place of NVIDIA's. As a crate it is an interpreter of PTX, for tests of the PTX emitter.
//!
//! * `ptx`: decodes the text of a module once into a compact form; unknown instructions are errors.
//! * `machine`: runs workgroups, a warp of 32 lanes at a time. Errors that a device would not
//!   report are a [`Fault`] here: accesses that are misaligned or out of bounds of an allocation,
//!   reads of uninitialised shared memory, data races in a workgroup, barriers and shuffles that
//!   only some of the lanes reach.
//! * `device`: memory, streams, events, modules. Work on a stream is deferred until the host waits
//!   for it, so a host that changes bytes too early, or frees memory too early, is detected.
//! * `product`: matrix products, as in cuBLASLt; `ELINVAR_CUBLASLT_LIBRARY` may name this library,
//!   too.
//! * `sys`: the C functions, and memory as raw bytes.
//!
//! Its clock counts instructions: a kernel with fewer instructions is faster, independent of the
//! load of the host. Each stream has its own, so that work of two streams overlaps in time. A
//! stream runs only when something waits for it: what forgets to wait for another stream finds old
//! bytes there, each time.
//!
//! What is not emulated: caches, memories of several devices (they share one), and data races
//! between workgroups (the interpreter of the kernel language finds those).
//!
//! The environment selects the device: see [`settings`].

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

/// The path of the library of C functions, for a test of this workspace: in the directory of the
/// test program, or in the one above.
pub fn library() -> Option<PathBuf> {
    let name = format!("{}emulated_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let program = std::env::current_exe().ok()?;
    let beside = program.parent()?;
    [beside.join("deps"), beside.to_path_buf(), beside.parent()?.to_path_buf()]
        .into_iter()
        .map(|dir| dir.join(&name))
        .find(|path| path.is_file())
}
