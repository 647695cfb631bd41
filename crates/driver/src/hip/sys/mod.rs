//! The functions of AMD's libraries: their names, devices and the compiler. What is common to
//! drivers with streams, and how all calls are kept in order, is in `streams/sys`.

#![allow(unsafe_code, reason = "the functions of a C library")]

mod comgr;
mod device;
mod library;

pub use comgr::{comgr, use_compiler};
pub use device::{open, physical};
pub use library::use_library;
