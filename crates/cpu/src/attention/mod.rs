//! Attention and its gradient, FlashAttention style: tiles of 64 queries against blocks of 64 keys,
//! with online softmax.
//!
//! The definition (numerics, "Attention") visits the keys in blocks of 64, so a tile of scores is
//! all that is ever in memory. Products of tiles are fma chains in registers ([`tile_kernel`]);
//! between them, every step of the definition is a vector loop over a row of 64 scores.

mod backward;
mod bf16;
mod few_queries;
mod forward;
mod plan;
mod rows;
mod scores;
mod terms;
mod tile_kernel;

pub(crate) use backward::{GradInputs, attention_grad};
pub(crate) use forward::attention;
