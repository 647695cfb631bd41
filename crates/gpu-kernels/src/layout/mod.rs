//! Layout kernels: strided copies, casts and transposes, and the index arithmetic from an element's
//! number to its offset.

pub mod copy;
pub mod indexing;
pub mod plan;
