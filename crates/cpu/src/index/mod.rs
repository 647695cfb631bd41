//! Gather and scatter by index.

pub(crate) mod gather;
mod plan;
mod row_sources;
pub(crate) mod scatter;
