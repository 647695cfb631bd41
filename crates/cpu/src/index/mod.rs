//! Gather and scatter by index.

pub(crate) mod gather;
mod plan;
mod row_sources;
pub(crate) mod scatter;

/// Where an index is: a negative one is beyond any size, and so is one that is larger than memory,
/// whose low bits on a machine of 32 bits would be another.
#[inline(always)]
fn place(index: i64) -> usize {
    usize::try_from(index as u64).unwrap_or(usize::MAX)
}
