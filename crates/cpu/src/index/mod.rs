//! Gather and scatter by index.

pub(crate) mod gather;
pub(crate) mod kernels;
pub(crate) mod scatter;
