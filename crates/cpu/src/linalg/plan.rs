//! How steps of factorisations are shared by threads, and cut for caches.

/// Nanoseconds of LU factors for each element and column.
pub(super) const ELIMINATION_NS: f64 = 0.1;
/// Nanoseconds of a rotation for each element of a row.
pub(super) const ROTATION_NS: f64 = 0.15;
/// Nanoseconds of an inverse for each element.
pub(super) const INVERSION_NS: f64 = 1.0;
/// Elements of inverses that a thread takes at a time, if there are so many.
pub(super) const PIECE_ELEMENTS: usize = 1 << 13;
/// Bytes of the rows of a block that is rotated: what leaves room in a second-level cache of half a
/// mebibyte.
pub(super) const BLOCK_BYTES: usize = 384 << 10;
