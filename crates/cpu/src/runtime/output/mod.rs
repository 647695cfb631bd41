//! Uninitialised output, partitioned among threads: contiguous pieces, blocks of columns, strided
//! rows.

pub(crate) mod column_blocks;
pub(crate) mod parallel_fill;
pub(crate) mod strided_rows;
