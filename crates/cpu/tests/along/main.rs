//! Work along axes against the reference, by bits.

mod common;
mod fold;
mod rows;
