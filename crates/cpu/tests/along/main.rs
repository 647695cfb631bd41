//! Work along axes against the reference, by bits.

mod attention;
mod common;
mod fold;
mod others;
mod rows;
