//! The functions of AMD's libraries: their names, devices, the compiler, products. What is common
//! to drivers with streams, and how all calls are kept in order, is in `streams/sys`.

#![allow(unsafe_code, reason = "the functions of a C library")]

mod comgr;
mod device;
mod hipblaslt;
mod library;

pub use comgr::{comgr, use_compiler};
pub use device::{open, physical};
pub use hipblaslt::HIPBLASLT;
pub use library::use_library;
