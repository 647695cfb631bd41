//! Reductions, scans and row-wise ops.

pub mod arg_fold;
pub mod block_reduce;
pub mod fold;
pub mod multi_block_rowwise;
pub mod plan;
mod register_row;
pub mod rowwise;
pub mod scan;
