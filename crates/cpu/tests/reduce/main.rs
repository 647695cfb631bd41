//! Reductions, scans, sorting, pooling, row-wise formulas and attention against the reference, by
//! bits.

mod attention;
mod attention_bf16;
mod common;
mod ctc;
#[path = "../common/data.rs"]
mod data;
mod fold;
#[path = "../common/processor.rs"]
mod processor;
mod rowwise;
mod scan_sort_pool;
mod with_column_sums;
