//! A stand-in for NVIDIA's NCCL, so that workers with CUDA devices are tested on machines without a
//! GPU.
//!
//! As a library of C functions (`libemulated_nccl.so`) it has those functions of `libnccl.so.2`
//! that the project loads, with the same names, types and rules: `ELINVAR_NCCL_LIBRARY` names it in
//! place of NVIDIA's. Workers are processes of one machine; what one sends goes through a socket to
//! the memory of the other's device, by the driver library that `ELINVAR_CUDA_LIBRARY` names.
//!
//! * `mesh`: a connection from each worker to each other one.
//! * `sys`: the C functions.
//!
//! What would be undefined with NVIDIA's library is an error here: a receive of another size than
//! the send, a communicator that is used after its end, a thread without a device. What a worker
//! that is gone would do there, it does here: the others wait, until their communicator is aborted.
//!
//! `ELINVAR_EMULATED_NCCL` makes a worker fail: `join` does not let it meet the others, and with
//! `silent` nothing of what it sends leaves.

mod mesh;
mod sys;

use std::path::PathBuf;

/// The path of the library of C functions, for a test of this workspace.
pub fn library() -> Option<PathBuf> {
    emulated_gpu::library("emulated_nccl")
}
