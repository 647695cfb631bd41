//! The functions of NVIDIA's driver library. All of `unsafe` is here.
//!
//! What holds for every call, and where it is ensured:
//! * The library is loaded once and never unloaded, so its functions are always there
//!   (`library.rs`).
//! * A call that needs a context is made after `Shared::enter`, which makes the device's primary
//!   context the thread's.
//! * Handles are made by the device that they are used with: each type here holds its device
//!   (`Arc<Shared>`) and hands no raw handle out.
//! * All work goes to one stream, in the order in which the lock of `Queue` was taken. Memory is
//!   given back in that order, and what the host shares with the device is used again only behind
//!   an event (`staging.rs`).

#![allow(unsafe_code, reason = "the functions of a C library")]

mod cublaslt;
mod device;
mod error;
mod functions;
mod graph;
mod kernel_cache;
mod library;
mod memory;
mod module;
mod queue;
mod staging;
mod tensor_map;
mod timestamp;

pub use device::{Shared, physical};
pub use graph::Graph;
pub use library::use_library;
pub use memory::Memory;
pub use module::Module;
pub use timestamp::Timestamp;
