//! All of `unsafe`: memory as raw bytes, the C functions, and runtime dispatch by instruction set.

#![allow(unsafe_code, reason = "a C library, and memory that many threads share")]

pub mod api;
pub mod best;
pub mod blas;
mod log;
pub mod maps;
pub mod raw;
