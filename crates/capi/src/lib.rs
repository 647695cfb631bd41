//! The raw backends of `elinvar-compute` for C: `include/elinvar.h` declares the functions of
//! `sys`.
//!
//! A backend is a number that is looked up at each call, so that one that was closed, or never
//! opened, is an error. No panic leaves a function: it becomes a status of its own.

mod backends;
mod sys;

pub use backends::Status;
