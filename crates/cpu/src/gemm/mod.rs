//! Products of matrices: packed blocks, tiles in registers, threads over tiles.
//!
//! A contraction, and each kind of convolution, is a batch of products `y[m, n] = sum over k of a[m, k] * b[k, n]` whose
//! factors are packed by [`OperandA`] and [`OperandB`]. The order of the terms (`elinvar_core::order::contract`) is also the
//! shape of the loops: a chunk of 512 terms is packed, a tile of the result chains it in registers from 0, and adds it
//! to the result; the first chunk is stored. What runs side by side are elements of the result, so no block
//! size and no number of threads changes a bit.
//!
//! How it can be wrong: by a result element that no tile, or two tasks, write. The tests have sizes around every block.

mod bf16;
pub(crate) mod contract;
pub(crate) mod epilogue;
pub(crate) mod kernels;
mod loops;
mod nonfinite;
pub(crate) mod operand;
mod prepack;
mod private_packing;
mod real;
mod small_m;
mod split_k;
mod tiny;

pub(crate) use bf16::{bf16_pair, has_bf16_dot, run_gemm_of_pairs};
pub(crate) use epilogue::{EpilogueOperand, NoEpilogue, TileEpilogue};
pub(crate) use kernels::{
    Blocking, NextOperands, OutputPrefetch, OutputTile, PACKED_A_PITCH, PanelsB, RowsA, TermKind, fill_tiles,
    mr, multiply_block_into, nr, tile_costs, transpose_block,
};
pub(crate) use nonfinite::{are_finite, has_negative_zero};
pub(crate) use operand::{
    BatchedMatrix, ColumnsB, OperandA, OperandB, StoredElements, TapRows, WindowColumns,
};
pub(crate) use prepack::{MatrixPlace, PrepackedB, PrepackedPanels, UseCounter, use_weight};
pub(crate) use real::Real;

pub(crate) use loops::{
    EVEN_TASKS_PER_THREAD, FINE_TASKS_PER_THREAD, FMAS_PER_NS, GEMV_MAX_ROWS, Gemm, PANELS_PER_PACK,
    PARALLEL_MIN_FMAS, PackPlan, b_fits_l2, balanced_piece, even_piece, for_each_task, k_chunks, pack_plan,
    rows_use_distinct_sets, run_gemm,
};
