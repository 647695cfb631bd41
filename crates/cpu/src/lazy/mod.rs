//! Lazy evaluation without a graph: buffers that hold a deferred computation, fusion of elementwise
//! maps, deferred gathers.

pub(crate) mod buffer;
pub(crate) mod fusion;
pub(crate) mod gather;
mod kernels;
pub(crate) mod map;
mod plan;
