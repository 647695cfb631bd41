//! Metal's `unsafe`: memory that host and device see, and the calls of Metal.
//!
//! Everything that touches memory, or gives work that does, goes through the queue, which is
//! locked: what `unsafe` functions ask for, it knows from what it was given and what is done.
//!
//! The calls of Metal are in `objc`, and elsewhere than on Apple's systems in a stand-in for tests
//! with the same names (`emulated`), which is as hostile as Metal's documentation allows.

#![allow(unsafe_code, reason = "memory that a device uses, too, and calls of Metal")]

mod copies;
#[cfg(not(target_vendor = "apple"))]
pub mod emulated;
mod memory;
#[cfg(target_vendor = "apple")]
mod objc;
mod pipeline;
mod queue;
mod shared;
mod timestamp;
mod transfer;

#[cfg(not(target_vendor = "apple"))]
use emulated as api;
#[cfg(target_vendor = "apple")]
use objc as api;

pub use api::{Device, devices};
pub use memory::Memory;
pub use pipeline::Pipeline;
pub use shared::Shared;
pub use timestamp::Timestamp;
pub use transfer::{PinnedMemory, Transfer};

/// What Metal tells about a device.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Its name.
    pub name: String,
    /// The system and its version, with the build.
    pub system: String,
    /// Is its memory the processor's?
    pub unified: bool,
    /// Bytes that it should hold at most, and of a piece of memory; 0 if it is not known.
    pub memory: u64,
    pub largest: u64,
    /// Of a threadgroup: bytes of memory, and threads.
    pub shared: u32,
    pub invocations: u32,
    /// Has it SIMD-groups of 32 with all functions, and `simdgroup_matrix` (Apple7 and later)?
    pub simd_groups: bool,
    /// The newest version of the language that the system compiles, times 100.
    pub language: u32,
}

/// What became of work that is done.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the device was done with it, in seconds of a clock that runs since the system started.
    pub end: f64,
    /// Why it was not done.
    pub error: Option<elinvar_core::Error>,
}
