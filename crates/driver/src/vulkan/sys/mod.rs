//! The functions of Vulkan. All of `unsafe` is here.
//!
//! What holds for every call, and where it is ensured:
//! * Handles are made by the device that they are used with: each type here holds its device
//!   (`Arc<Shared>`) and hands no raw handle out.
//! * Objects that Vulkan wants to be used by one thread at a time (the queue, command buffers,
//!   descriptor pools) are in `Queue`, behind one lock, or in a `Graph`, which records them once.
//! * Nothing is destroyed while the device may use it: what is dropped goes to the queue's garbage
//!   list with the number of the last submission that can use it, and is destroyed when that is
//!   done.

#![allow(unsafe_code, reason = "the functions of a C library")]

mod batch;
mod cooperative_matrix;
mod device;
mod error;
mod graph;
mod instance;
mod memory;
mod pipeline;
mod queue;
mod timestamp;
mod transfer;

pub use device::{HostCalls, Shared};
pub use graph::Graph;
pub use instance::{physical, use_validation, validation_messages};
pub use memory::Memory;
pub use pipeline::Pipeline;
pub use timestamp::Timestamp;
pub use transfer::{PinnedMemory, Transfer};
