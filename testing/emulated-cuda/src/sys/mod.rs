//! All of `unsafe`: the C functions.

#![allow(unsafe_code, reason = "a C library")]

pub mod api;
pub mod blas;
mod log;
pub mod maps;
mod modules;
