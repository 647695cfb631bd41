//! Work along axes against the reference, by bits.

#[path = "../common/data.rs"]
mod data;
mod attention;
mod common;
mod fold;
mod others;
mod rows;
