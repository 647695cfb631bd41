//! A stand-in for an MPI library that takes addresses of CUDA devices, so that workers that send
//! them are tested on machines without a GPU.
//!
//! As a library of C functions (`libemulated_mpi.so`) it has those functions of MPI that the
//! project loads: `ELINVAR_MPI_LIBRARY` names it. Messages are sent by Open MPI (`libmpi.so.40`),
//! under its launcher; handles are those of MPICH, so that neither is taken for the other's. What
//! is in the memory of an emulated CUDA device, of the driver library that `ELINVAR_CUDA_LIBRARY`
//! names, goes through host memory, as in a real one inside.
//!
//! It knows nothing of the device's streams, as a real one: memory is copied as it is when a call
//! comes, in a stream of its own. The emulated device puts work off until it is waited for, so who
//! does not wait for it sends old bytes, or has what was received written over, each time. What is
//! undefined with a real one is an error here: memory that is changed or freed while it is sent, a
//! thread without a device.
//!
//! `ELINVAR_EMULATED_MPI` makes a worker another: `unaware` says that it takes no addresses of
//! devices; with `silent` nothing of a device leaves, with `short` the last byte does not.
//!
//! * `real`: Open MPI's functions.
//! * `memory`: of the device, while it is sent or received.
//! * `sys`: the C functions.

#[cfg(unix)]
mod memory;
#[cfg(unix)]
mod real;
#[cfg(unix)]
mod sys;

use std::path::PathBuf;

/// The path of the library of C functions, for a test of this workspace.
pub fn library() -> Option<PathBuf> {
    emulated_gpu::library("emulated_mpi")
}
