//! The thresholds of reductions, each with its unit and its reason.

use elinvar_core::order::LANES;

/// Rows side by side, at least, for work that stages a block of elements: fewer leave too much of a
/// chunk empty.
pub(in crate::reduce) const MIN_ROWS: usize = 32;
/// The same for folds and for indices of extremes, which read elements in place.
pub(in crate::reduce) const FOLD_MIN_ROWS: usize = 8;
pub(in crate::reduce) const ARG_FOLD_MIN_ROWS: usize = 8;
/// Elements, at most, of rows that are one after the other and are transposed in registers: of
/// longer ones each has registers of its own.
pub(in crate::reduce) const SHORT_ROW_MAX_ELEMENTS: usize = 16;

/// Columns, at most and at least, that walk the tree together: eight levels of the tree, of f32,
/// fill half of a first-level cache.
pub(in crate::reduce) const TREE_MAX_COLUMNS: usize = 512;
pub(in crate::reduce) const TREE_MIN_COLUMNS: usize = 64;
/// Columns so few that a call for each lane is most of the work: a subtree of eight lanes goes at
/// once.
pub(in crate::reduce) const TREE_FEW_COLUMNS: usize = 128;
/// Columns of a task at most, where threads share the lanes of one matrix: a small page of f32,
/// within which a processor foresees what is read.
pub(in crate::reduce) const TREE_SHARED_MAX_COLUMNS: usize = 1024;
/// Tasks for each thread, at least: with fewer pieces of columns or of blocks, lanes are shared
/// instead.
pub(in crate::reduce) const TREE_TASKS_PER_THREAD: usize = 2;

/// Rows for each thread, below which threads share the blocks of each row.
pub(in crate::reduce) const SHARED_BLOCKS_ROWS_PER_THREAD: usize = 4;
/// Blocks of a fold that a thread takes at once, if rows are so short.
pub(in crate::reduce) const FOLD_BLOCKS_PER_TASK: usize = 64;
/// The same of an index of an extreme.
pub(in crate::reduce) const ARG_FOLD_BLOCKS_PER_TASK: usize = 16;

/// Chunks of 64 rows that a thread takes together, at most: 64 columns of a row are too little of a
/// page at a time.
pub(in crate::reduce) const MAX_CHUNKS_PER_TASK: usize = 8;
/// Tasks for each thread, at least, where chunks are taken together.
pub(in crate::reduce) const ARG_FOLD_TASKS_PER_THREAD: usize = 2;

/// Blocks of a row from which threads share it, if there are fewer than
/// [`SHARED_SCAN_ROWS_PER_THREAD`] rows for each.
pub(in crate::reduce) const SHARED_SCAN_MIN_BLOCKS: usize = 32;
pub(in crate::reduce) const SHARED_SCAN_ROWS_PER_THREAD: usize = 2;
/// Blocks of a scan that are read at once, if rows are so short.
pub(in crate::reduce) const SCAN_BLOCKS_PER_READ: usize = 4;

/// Elements of a group of samples of a CTC lattice, at most: nine arrays of so many f32 stay in a
/// first-level cache.
pub(in crate::reduce) const CTC_MAX_GROUP_ELEMENTS: usize = 1024;

/// Nanoseconds for a term of a fold, or of a row-wise formula of rows side by side: what memory
/// takes.
pub(in crate::reduce) const FOLD_NS_PER_ELEMENT: f64 = 0.2;
/// Nanoseconds for an element of an index of an extreme, of rows side by side.
pub(in crate::reduce) const ARG_FOLD_NS_PER_ELEMENT: f64 = 0.3;
/// Nanoseconds for an element of a scan of rows side by side.
pub(in crate::reduce) const SCAN_NS_PER_ELEMENT: f64 = 0.3;
/// Nanoseconds that an element of a CTC lattice takes.
pub(in crate::reduce) const CTC_NS_PER_ELEMENT: f64 = 0.5;
/// Rows for which a part of a window is enough.
pub(in crate::reduce) const NARROW_MAX_ROWS: usize = 16;
/// Elements of a row whose windows are all held at once, at most.
pub(in crate::reduce) const MAX_HELD_ELEMENTS: usize = LANES;
/// Elements of longer rows that are held at once. They divide a block.
pub(in crate::reduce) const HELD_ELEMENTS_OF_LONG_ROWS: usize = 32;
/// Elements of rows side by side that a row-wise formula reads several times, at most: a window of
/// each stays in a second-level cache.
pub(in crate::reduce) const ROWWISE_COLUMNS_MAX_ELEMENTS: usize = 4096;
/// Parts of a block that are folded in place, such as the images of a channel, whose gradient
/// a bias gets.
pub(in crate::reduce) const MAX_PARTS_IN_PLACE: usize = 16;
/// Terms that are summed without a call.
pub(crate) const INLINE_SUM_MAX_TERMS: usize = 16;
/// Elements of a row-major copy that a thread takes at once: of rows of ten, a tile is less than
/// what it takes to hand it out.
pub(in crate::reduce) const ROW_COPY_TASK_ELEMENTS: usize = 1 << 13;
/// Chunks of 64 rows for each thread, below which threads share the blocks of longer rows of a
/// row-wise formula.
pub(in crate::reduce) const ROWWISE_CHUNKS_PER_THREAD: usize = 2;
