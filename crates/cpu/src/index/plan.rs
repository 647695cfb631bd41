//! Thresholds of gathers and scatters by index.

use crate::machine::L2_BYTES;

/// Bytes of a part of the target that is made at once: they stay in a core's second-level cache,
/// beside what is added to them.
pub(super) const SCATTER_PART_BYTES: usize = L2_BYTES / 4;
/// Elements behind the axis that are worth a path of their own: rows of the target.
pub(super) const SCATTER_ROWS_MIN_INNER: usize = 16;
/// Neighbours on the average that are worth a loop of their own.
pub(super) const SCATTER_RUN_MIN_ELEMENTS: usize = 4;
