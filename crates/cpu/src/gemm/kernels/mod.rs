//! The innermost loops: a tile of the result in registers, blocks of numbers turned on their side, and the memory that
//! threads fill together. The only `unsafe` of the contractions is here.
//!
//! How it can be wrong: by reading or writing beside a block. Each function checks the lengths of what it is given, once,
//! before its loop.

pub(crate) mod a_rows;
#[cfg(target_arch = "x86_64")]
mod amx;
mod bf16_pairs;
mod dot;
mod gemv;
pub(crate) mod microkernel;
mod output_tile;
mod pack_edge;
mod pack_f16;
mod pack_transposed;
pub(crate) mod prefetch;
mod small_m;
mod stored_operand;

pub(crate) use bf16_pairs::as_pairs;
pub(crate) use dot::{Dots, dots};
pub(crate) use gemv::{LEAST, Lines};
pub(crate) use microkernel::{PITCH, Panels, TermKind, efforts, height, multiply_into, width};
pub(crate) use output_tile::{Cut, Tile, fill};
pub(crate) use pack_edge::{Narrow, narrow};
pub(crate) use pack_f16::halves;
pub(crate) use pack_transposed::turn;
pub(crate) use prefetch::{After, Written};
pub(crate) use small_m::{FEW, Few, GROUP, few, panel};
