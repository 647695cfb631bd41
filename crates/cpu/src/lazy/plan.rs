//! What is deferred, and how deferred maps and gathers are cut into blocks.

use crate::machine::L3_BYTES;

/// Elements from which a buffer may be deferred, and can be held by others.
pub(super) const NODE_MIN_ELEMENTS: usize = 1024;
/// Maps in one pass, at most: their blocks stay in a second-level cache, each with what it reads in
/// the first.
pub(super) const MAX_FUSED_MAPS: usize = 8;
/// Elements of the blocks of a pass, 4 KiB: those of three steps and as many numbers fit a
/// first-level cache, and what a formula costs before its first element is little beside its
/// elements.
pub(super) const PASS_BLOCK_ELEMENTS: usize = 1024;
/// The same where two blocks are enough: each step reads one and writes the other.
pub(super) const TWO_BLOCK_ELEMENTS: usize = 2 * PASS_BLOCK_ELEMENTS;
/// Elements that come from memory, as they are too many for a third-level cache. While formulas
/// compute in the first level, memory has nothing to do: where the results go and what is read next
/// is prefetched.
pub(super) const PREFETCH_MIN_ELEMENTS: usize = L3_BYTES / size_of::<f32>();
/// Elements for each run of a gather that are copied together, on the average, from which it is
/// worth it.
pub(super) const GATHER_RUN_MIN_ELEMENTS: usize = 4;
/// Elements of a run of a gather that are worth a call.
pub(super) const GATHER_CALL_MIN_ELEMENTS: usize = 8;
