//! The thresholds and block sizes of products, each with its unit and its reason.

use std::ops::RangeInclusive;

// Blocking. The letters are those of BLIS: MR x NR is the register tile, MC x KC the block of A, KC
// x NC the block of B. KC is a chunk of terms, or several.

/// Bytes of a column of a packed block of A (MC rows): with a chunk of terms it takes 300 KiB of a
/// second-level cache of 1 MiB, and leaves room for two panels and the result.
pub(in crate::gemm) const MC_BYTES: usize = 576;
/// Bytes of a row of the block of B that a task packs for itself (NC columns): 512 KiB with a chunk
/// of terms.
pub(in crate::gemm) const NC_BYTES: usize = 1024;
/// Columns of which a block takes no more, of one chunk of terms and of several: those of several
/// are added to one another in a core's second-level cache.
pub(in crate::gemm) const NC_MAX_COLUMNS: [usize; 2] = [4096, 1024];
/// The part of the third-level cache that a block of B takes that is packed for all tasks, of f32
/// and of f64; but at least a chunk of terms of all columns. Several chunks of fewer columns: each
/// chunk but the last then adds to sums in the second-level cache instead of the result. Of f64,
/// one chunk of 1024 columns fills it already, and two were no gain.
pub(in crate::gemm) const SHARED_B_PART_OF_L3: [usize; 2] = [2, 4];
/// The part of the second-level cache that a right factor takes at most to stay there without being
/// packed.
pub(in crate::gemm) const UNPACKED_B_PART_OF_L2: usize = 2;
/// Panels that a task packs for itself, one after the other, and multiplies while they are in its
/// second-level cache.
pub(in crate::gemm) const PANELS_PER_PACK: usize = 2;
/// Panels of a task that packs for others.
pub(in crate::gemm) const PANELS_PER_SHARED_PACK: usize = 4;
/// The part of the second-level cache that a task's result takes at most where rows are taps, of
/// which nothing is packed, for twice as many rows to come together: the right factor comes from
/// the third-level cache half as often.
pub(in crate::gemm) const TAPS_RESULT_PART_OF_L2: usize = 4;
/// Rows of the lowest register tile whose sums are enough to hide how long an fma takes.
pub(in crate::gemm) const MIN_TILE_ROWS: usize = 4;

// Threads.

/// Tasks, or panels, for each thread of which one more or less is little.
pub(crate) const EVEN_TASKS_PER_THREAD: usize = 8;
/// Tasks for each thread where a task costs next to nothing by itself: a thread that comes late, or
/// is held up, is helped.
pub(in crate::gemm) const FINE_TASKS_PER_THREAD: usize = 4;
/// Multiplications below which work is not shared: waking a thread takes about as long.
pub(crate) const PARALLEL_MIN_FMAS: usize = 1 << 18;
/// The same of a whole product: to look at a caller's product costs another core one line of its
/// cache after the other, and more where cores are far apart.
pub(in crate::gemm) const PARALLEL_MIN_FMAS_OF_GEMM: usize = 3 << 17;
/// Multiplications that one thread does in a nanosecond, about.
pub(in crate::gemm) const FMAS_PER_NS: f64 = 64.0;
/// Multiplications that take as long as packing a number.
pub(in crate::gemm) const FMAS_PER_PACKED_NUMBER: usize = 4;
/// The left factor and the result together have so many times as many numbers as the right one from
/// which a product is tall.
pub(in crate::gemm) const TALL_RATIO: usize = 4;
/// Columns for each thread from which threads share the columns of a product, and not its rows: a
/// core waits for what another has just packed. With fewer columns, packing all rows on each thread
/// takes what it saves.
pub(in crate::gemm) const SPLIT_COLUMNS_MIN_PER_THREAD: usize = 128;

// Few rows (GEMV and small M), by columns whose terms are neighbours in memory.

/// Rows up to which columns that are in memory are not packed: each number of them is used only as
/// often as there are rows.
pub(in crate::gemm) const GEMV_MAX_ROWS: usize = 8;
/// Rows of which columns that are in memory are better read number by number, as the left factor of
/// the transposed product.
pub(in crate::gemm) const SMALL_M_ROWS: RangeInclusive<usize> = 8..=192;
/// Fewer columns do not fill registers, which counts where they have so many terms.
pub(in crate::gemm) const NARROW_MAX_COLUMNS: usize = 48;
pub(in crate::gemm) const NARROW_MIN_TERMS: usize = 256;
/// The part of the second-level cache that rows take which are packed at once; of more terms, sums
/// wait.
pub(in crate::gemm) const SMALL_M_ROWS_PART_OF_L2: usize = 2;

// Split-K and dots.

/// Results up to which their terms are shared where tiles could be, too: each thread reads its own
/// terms alone.
pub(in crate::gemm) const SPLIT_K_MAX_RESULTS: usize = 128 * 128;
/// Chunks for each thread of which one more or less is little.
pub(in crate::gemm) const SPLIT_K_CHUNKS_PER_THREAD: usize = 4;
/// Products in a batch of which registers are full without chunks.
pub(in crate::gemm) const NO_SPLIT_MIN_BATCH: usize = 16;
/// How many times as long as in tiles a multiplication takes of vectors, which are transposed on
/// their way.
pub(in crate::gemm) const DOT_COST_FACTOR: f64 = 8.0;
/// Dots of a task are a multiple of this, as registers are filled, and at most so many.
pub(in crate::gemm) const DOT_TASK_UNIT: usize = 32;
pub(in crate::gemm) const DOT_TASK_MAX: usize = 512;
/// Tasks of dots for each thread.
pub(in crate::gemm) const DOT_TASKS_PER_THREAD: usize = 4;

// Tiny products.

/// Products of a batch, at least; results and terms of each, at most.
pub(in crate::gemm) const TINY_MIN_BATCH: usize = 32;
pub(in crate::gemm) const TINY_MAX_RESULTS: usize = 32;
pub(in crate::gemm) const TINY_MAX_TERMS: usize = 8;
/// Products of a task.
pub(in crate::gemm) const TINY_PRODUCTS_PER_TASK: usize = 256;
/// How many times as long as in tiles a multiplication takes.
pub(in crate::gemm) const TINY_COST_FACTOR: f64 = 32.0;

// Weights that are packed unasked.

/// Rows of a left factor up to which it matters whether the right one is packed.
pub(in crate::gemm) const PREPACK_MAX_ROWS: usize = 2048;
/// Uses of a matrix from which it is packed unasked: by then, not having packed it has cost about
/// as much as packing it does.
pub(in crate::gemm) const USES_BEFORE_PACKING: u32 = 8;
/// Uses that a product counts for which is not of few rows: it packs the matrix, and a tall one
/// does on each thread.
pub(in crate::gemm) const USES_OF_PACKING_GEMM: u32 = USES_BEFORE_PACKING / 2;

/// How many uses of its right factor a product of so many rows counts for. (A product of few rows
/// reads it where it is, mostly.)
pub(crate) fn use_weight(rows: usize) -> u32 {
    if rows <= *SMALL_M_ROWS.end() {
        1
    } else if rows <= PREPACK_MAX_ROWS {
        USES_OF_PACKING_GEMM
    } else {
        0
    }
}

/// Elements of rows of which several are finished at once: a call for each took as long as what is
/// multiplied, where that is little.
pub(in crate::gemm) const NARROW_ROW_MAX_ELEMENTS: usize = 64;
/// Elements of an epilogue's operands that are staged at once: 2 KiB of f32 for each.
pub(in crate::gemm) const EPILOGUE_STAGED_ELEMENTS: usize = 512;
/// Rows ahead that are prefetched where panels are packed. What a row has for some panels is too
/// short for hardware to foresee the next row.
pub(in crate::gemm) const PACK_PREFETCH_ROWS: isize = 6;
/// Terms of a panel's rows that are turned at once: 16 KiB of f32, which are in the first-level
/// cache when they are.
pub(in crate::gemm) const SMALL_M_TRANSPOSE_TERMS: usize = 128;
/// Results whose chunks one thread adds, at most.
pub(in crate::gemm) const SPLIT_K_ADD_TASK_RESULTS: usize = 1024;
/// Nanoseconds of such an addition.
pub(in crate::gemm) const SPLIT_K_ADD_NS: f64 = 0.1;
/// Rows of bf16 that are transposed together: a cache line of f32.
pub(in crate::gemm) const BF16_TRANSPOSE_ROWS: usize = 16;
/// Pairs of each of these rows: 8 KiB.
pub(in crate::gemm) const BF16_TRANSPOSE_PAIRS: usize = 128;
