//! Thresholds of elementwise work: blocks, and pieces of work.

use elinvar_simd::uninit::BLOCK_ELEMENTS;

/// Elements of the largest blocks that are asked for: one of f32 and its results take half of a
/// first-level cache.
pub(crate) const MAX_BLOCK_ELEMENTS: usize = 2048;
/// Elements that are worth a call of a formula; fewer that lie together are collected in a block.
pub(super) const CALL_MIN_ELEMENTS: usize = 256;
/// Results of a part that is made in f32 and stored as a storage float, at least: what makes them
/// makes buffers of its own each time.
pub(super) const NARROW_MIN_PART_ELEMENTS: usize = 1 << 15;
/// Elements of a piece of an update: tens of microseconds of work, many times what handing it to
/// another thread costs.
pub(super) const UPDATE_PIECE_ELEMENTS: usize = 32 * BLOCK_ELEMENTS;
/// Nanoseconds that an element of an update takes at least.
pub(super) const UPDATE_NS_PER_ELEMENT: f64 = 0.5;
