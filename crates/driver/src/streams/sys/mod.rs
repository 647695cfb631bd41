//! Functions of drivers with streams. What holds for every call, and where it is ensured:
//! * A library is loaded once and never unloaded, so its functions are always there.
//! * A call that needs a device is made after `Shared::enter`, which makes it the thread's.
//! * Handles are made by the device that they are used with: each type here holds its device
//!   (`Arc<Shared>`) and hands no raw handle out.
//! * Work goes to a stream in the order in which the lock of its `Queue` was taken. What a queue
//!   has (arguments, staging memory, a library's workspace) is used in its stream alone. Memory of
//!   tensors is given back behind what all streams were given until then (`memory.rs`), and what
//!   the host shares with the device is used again only behind an event (`staging.rs`,
//!   `transfer.rs`).

#![allow(unsafe_code, reason = "the functions of a C library")]

mod api;
mod blaslt;
mod blaslt_library;
mod column_major;
mod device;
mod error;
mod event;
mod functions;
mod graph;
mod kernel_cache;
pub mod memory;
mod module;
mod queue;
mod staging;
mod stream;
mod transfer;

pub use api::Api;
pub use blaslt_library::{BlasLtLibrary, BlasLtStatus};
pub use device::{Listed, Physical, Shared, file_word};
pub use error::Status;
pub use event::{Event, Timestamp};
pub(crate) use functions::functions_of;
pub use functions::{Address, Contexts, CopyBetween, ErrorName, Functions, Handle};
pub use graph::Graph;
pub use memory::Memory;
pub use module::Module;
pub use stream::{OtherStream, Stream};
pub use transfer::{PinnedMemory, Transfer};
