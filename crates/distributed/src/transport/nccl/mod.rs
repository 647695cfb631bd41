//! NCCL: numbers of CUDA devices, from the memory of one to that of another.
//!
//! Of NCCL only sends and receives are used. Its sums are not: their order is the library's, and
//! differs with its version, settings and number of workers. Its workers are those of a group that
//! has another transport, over which they meet and check that they make the same call.
//!
//! How it can be wrong: a call that waits for ever. NCCL's have no time limit, and a device waits
//! for a worker that is gone; so a thread watches, and aborts the communicator, by which all of its
//! calls and work end.

#[cfg(not(unix))]
mod nowhere;
#[cfg(unix)]
mod sys;
#[cfg(unix)]
mod watched;

#[cfg(not(unix))]
pub use nowhere::{Library, Nccl};
#[cfg(unix)]
pub use sys::Library;
#[cfg(unix)]
pub use watched::Nccl;

/// `ncclUniqueId`: what the workers of a communicator have in common.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; ID_BYTES]);
pub const ID_BYTES: usize = 128;
