//! Gather and scatter by index.

pub(crate) mod gather;
pub(crate) mod scatter;
