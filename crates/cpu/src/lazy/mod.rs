//! Lazy evaluation: buffers whose elements are computed when they are read, fusion of maps, deferred gathers.

pub(crate) mod buffer;
pub(crate) mod fusion;
pub(crate) mod gather;
