//! What drivers have in common of `unsafe`: libraries that are found at run time.

#![allow(unsafe_code, reason = "a C library is loaded")]

mod library;

pub use library::Wanted;
