//! The functions of NVIDIA's driver library. All of `unsafe` is here.
//!
//! What holds for every call, and where it is ensured:
//! * The library is loaded once and never unloaded, so its functions are always there
//!   (`library.rs`).
//! * A call that needs a context is made after `Shared::enter`, which makes the device's primary
//!   context the thread's.
//! * Handles are made by the device that they are used with: each type here holds its device
//!   (`Arc<Shared>`) and hands no raw handle out.
//! * Work goes to a stream in the order in which the lock of its `Queue` was taken. What a queue
//!   has (arguments, staging memory, a library's workspace) is used in its stream alone. Memory of
//!   tensors is given back behind what all streams were given until then (`memory.rs`), and what
//!   the host shares with the device is used again only behind an event (`staging.rs`,
//!   `transfer.rs`).

#![allow(unsafe_code, reason = "the functions of a C library")]

mod cublaslt;
mod device;
mod error;
mod event;
mod functions;
mod graph;
mod kernel_cache;
mod library;
mod memory;
mod module;
mod queue;
mod staging;
mod stream;
mod tensor_map;
mod transfer;

pub use device::{Shared, physical};
pub use event::{Event, Timestamp};
pub use graph::Graph;
pub use library::use_library;
pub use memory::Memory;
pub use module::Module;
pub use stream::{OtherStream, Stream};
pub use transfer::{PinnedMemory, Transfer};
