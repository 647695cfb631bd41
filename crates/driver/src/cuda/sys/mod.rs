//! The functions of NVIDIA's driver library that no other has: its names, its compiler, tensor maps
//! and products. What is common to drivers with streams, and how all calls are kept in order, is in
//! `streams/sys`.

#![allow(unsafe_code, reason = "the functions of a C library")]

mod compiler;
mod cublaslt;
mod device;
mod functions;
mod library;
mod tensor_map;

pub use compiler::module;
pub use cublaslt::CUBLASLT;
pub use device::{open, physical};
pub use functions::NvidiaFunctions;
pub use library::use_library;
pub use tensor_map::maps;
