//! The suite under test: what it reads, what it refuses, what it compares. One program, so that the
//! ops are compiled once.

mod capabilities;
mod equal;
mod malformed;
mod mutation;
mod own;
