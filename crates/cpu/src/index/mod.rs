//! Gather and scatter by index.

pub(crate) mod gather;
mod plan;
pub(crate) mod scatter;
