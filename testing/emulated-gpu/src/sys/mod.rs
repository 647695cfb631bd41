//! All of `unsafe`: memory as raw bytes, C functions, and runtime dispatch by instruction set.

#![allow(unsafe_code, reason = "functions of C libraries, and memory that many threads share")]

pub(crate) mod best;
pub mod functions;
pub mod products;
pub mod raw;
