//! The thresholds of attention, each with its unit and its reason.

/// Elements of a row that goes through shared memory, at most: those of longer ones have no room
/// beside others.
pub(in crate::attention) const MAX_SMEM_ROW_ELEMENTS: usize = 128;
/// Queries that are few: those of a fragment. More keep a device busy without splits.
pub(super) const MAX_SPLIT_QUERIES: usize = 16;
/// Keys of a split: a multiple of a block. Reading them takes longer than to begin and to join.
pub(in crate::attention) const KEYS_PER_SPLIT: usize = 512;
