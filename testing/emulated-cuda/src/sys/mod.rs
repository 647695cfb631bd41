//! All of `unsafe`: memory as raw bytes, the functions that C callers see, and the choice of the
//! processor's instructions.

#![allow(unsafe_code, reason = "a C library, and memory that many threads share")]

pub mod api;
pub mod best;
pub mod blas;
mod log;
pub mod maps;
pub mod raw;
