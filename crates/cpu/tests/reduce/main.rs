//! Work along axes against the reference, by bits.

mod attention;
mod columns;
mod common;
mod ctc;
#[path = "../common/data.rs"]
mod data;
mod fast_attention;
mod fold;
mod others;
#[path = "../common/processor.rs"]
mod processor;
mod rows;
