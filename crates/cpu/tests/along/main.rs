//! Work along axes against the reference, by bits.

mod attention;
mod columns;
mod common;
#[path = "../common/data.rs"]
mod data;
mod fast_attention;
mod fold;
mod lattice;
mod others;
#[path = "../common/processor.rs"]
mod processor;
mod rows;
