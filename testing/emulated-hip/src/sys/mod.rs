//! All of `unsafe`: the C functions.
//!
//! Callers guarantee the pointers, as AMD's manuals require: pointers to results are valid, strings
//! end with 0, arrays have the stated number of elements. That is the argument for every `unsafe`
//! block here that has no other.

#![allow(unsafe_code, reason = "two C libraries")]

mod blas;
mod comgr;
mod hip;
mod object;
