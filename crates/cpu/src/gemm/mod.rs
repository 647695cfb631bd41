//! GEMM: batched matrix products `y[m, n] = epilogue(sum over k of a[m, k] * b[k, n])`, for
//! contractions and for convolutions as GEMM.
//!
//! The structure is that of BLIS: loops over blocks of `nc` columns, `KC` terms
//! (`elinvar_core::order::CHUNK` = 512) and `mc` rows; packed panels of A and B; a microkernel of
//! `mr` x `nr` accumulators in registers; an epilogue on finished tiles. `KC` is fixed by the
//! definition: an element is the sum, chunk by chunk, of fma chains that start at +0, so no other
//! block size and no number of threads changes a bit.
//!
//! * `contract`: entry point, from views; `plan`: which path, blocking, who packs what.
//! * `loops`: the loops around the microkernel, of a `planned` product; `private_packing`: each
//!   task packs for itself.
//! * `small_m`, `split_k`, `tiny`: special shapes; `bf16`: bf16 dot products.
//! * `operand`: where A and B come from; `prepack`: weights packed ahead of time; `nonfinite`:
//!   checks for NaN, infinities and -0.
//! * `epilogue`: bias and activation on finished tiles.
//! * `kernels`: register tile and microkernel, GEMV, dot products, AMX, packing, prefetch.
//!
//! Imports run downwards: entry, loops, operands, plans, kernels.

mod bf16;
pub(crate) mod contract;
pub(crate) mod epilogue;
pub(crate) mod kernels;
mod loops;
mod nonfinite;
pub(crate) mod operand;
mod plan;
mod planned;
mod prepack;
mod private_packing;
mod small_m;
mod split_k;
mod tiny;

pub(crate) use bf16::bf16_pair;
pub(crate) use epilogue::{EpilogueOperand, TileEpilogue};
pub(crate) use kernels::{
    Blocking, NextOperands, OutputPrefetch, OutputTile, PACKED_A_PITCH, PanelsB, PrepackedPanels, RowsA,
    TermKind, fill_tiles, multiply_block_into, nr, tile_costs, transpose_block,
};
pub(crate) use loops::{Gemm, run_gemm, run_gemm as run_gemm_of_pairs};
pub(crate) use nonfinite::{are_finite, has_negative_zero};
pub(crate) use operand::{BatchedMatrix, OperandA, OperandB};
pub(crate) use plan::thresholds::{EVEN_TASKS_PER_THREAD, PARALLEL_MIN_FMAS, use_weight};
pub(crate) use plan::{PackPlan, TAPS_PER_ADDRESS, Units};
pub(crate) use planned::k_chunks;
pub(crate) use prepack::{MatrixPlace, PrepackedB, UseCounter};
