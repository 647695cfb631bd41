//! Thresholds of copies and concatenations.

/// Elements of a run, or of a row of a part, that are worth a call.
pub(super) const RUN_CALL_MIN_ELEMENTS: usize = 64;
/// Elements of a row of a concatenation that are worth several threads.
pub(super) const CONCAT_PARALLEL_MIN_ELEMENTS: usize = 1 << 12;
/// Elements of a concatenation that are written at once, of several parts in turn.
pub(super) const CONCAT_BLOCK_ELEMENTS: usize = 2048;
