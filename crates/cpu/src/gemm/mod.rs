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
mod plan;
mod prepack;
mod private_packing;
mod real;
mod small_m;
mod split_k;
mod tiny;

pub(crate) use bf16::{bf16_pair, has_bf16_dot};
pub(crate) use epilogue::{EpilogueOperand, NoEpilogue, TileEpilogue};
pub(crate) use kernels::{
    Blocking, NextOperands, OutputPrefetch, OutputTile, PACKED_A_PITCH, PanelsB, RowsA, TermKind, fill_tiles,
    mr, multiply_block_into, nr, tile_costs, transpose_block,
};
pub(crate) use loops::{Gemm, for_each_task, k_chunks, run_gemm, run_gemm as run_gemm_of_pairs};
pub(crate) use nonfinite::{are_finite, has_negative_zero};
pub(crate) use operand::{
    BatchedMatrix, ColumnsB, OperandA, OperandB, StoredElements, TapRows, WindowColumns,
};
pub(crate) use plan::thresholds::{EVEN_TASKS_PER_THREAD, PARALLEL_MIN_FMAS, use_weight};
pub(crate) use plan::{PackPlan, Units, rows_use_distinct_sets};
pub(crate) use prepack::{MatrixPlace, PrepackedB, PrepackedPanels, UseCounter};
pub(crate) use real::Real;
