//! GEMM kernels: microkernel, GEMV, dot products, AMX, packing (transposing, edge, f16), prefetch,
//! and the output tile.
//!
//! How it can be wrong: by an access outside of a block. Each function checks the lengths of its
//! arguments once, before its loop.

pub(crate) mod a_rows;
#[cfg(target_arch = "x86_64")]
mod amx;
mod bf16_pairs;
mod blocks;
mod dot;
mod gemv;
pub(crate) mod microkernel;
mod output_tile;
mod pack_edge;
mod pack_f16;
mod pack_transposed;
pub(crate) mod prefetch;
pub(crate) mod register_tile;
mod small_m;
mod stored_operand;

pub(crate) use bf16_pairs::as_pairs;
pub(crate) use blocks::{
    ColumnsB, NextOperands, PACKED_A_PITCH, PanelsB, PrepackedPanels, RowsA, TermKind, nr,
};
pub(crate) use dot::{BatchedDots, dots};
pub(crate) use gemv::GEMV_MIN_COLUMNS;
pub(crate) use microkernel::multiply_block_into;
pub(crate) use output_tile::{Blocking, OutputTile, fill_tiles};
pub(crate) use pack_edge::{EdgePanel, pack_edge};
pub(crate) use pack_f16::pack_f16;
pub(crate) use pack_transposed::transpose_block;
pub(crate) use prefetch::OutputPrefetch;
pub(crate) use register_tile::tile_costs;
pub(crate) use small_m::{COLUMN_GROUP, PREFETCH_ROWS, SmallM, panel_columns, small_m};
