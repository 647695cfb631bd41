//! Reductions, scans and row-wise ops.

pub mod arg_fold;
pub mod block_reduce;
pub mod fold;
pub mod multi_block_rowwise;
mod register_row;
pub mod rowwise;
pub mod scan;
