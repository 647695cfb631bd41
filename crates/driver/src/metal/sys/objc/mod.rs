//! The calls of Metal, by `objc2-metal`.
//!
//! Threads, by Apple's documentation: devices, command queues, libraries, functions and pipelines
//! may be used by many at once; command buffers and their encoders by one at a time, whichever it
//! is. Of buffers, what is asked here does not change after they were made.
//!
//! Lifetimes: `Retained` counts a reference, and command buffers count one for everything that they
//! use until they are done. What functions return "autoreleased" lives until the pool around it
//! ends, of which a thread of Rust has none: every function here that calls one of those makes its
//! own.

mod buffer;
mod commands;
mod device;
mod pipeline;

pub use buffer::Buffer;
pub use commands::{CommandQueue, Commands, Committed};
pub use device::{Device, devices};
pub use pipeline::Compiled;
