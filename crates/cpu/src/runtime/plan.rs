//! When work is shared between threads, how long threads wait for it, and which memory is kept: all
//! thresholds of the runtime, in nanoseconds, elements or bytes.

/// Nanoseconds of work from which it is shared: several times what it takes a thread that looks out
/// to begin (about 0.3 microseconds) and to be waited for.
pub(super) const PARALLEL_MIN_NS: f64 = 3_000.0;
/// Nanoseconds of work for which sleeping threads are woken, which takes them ten microseconds and
/// more.
pub(super) const WAKE_MIN_NS: f64 = 40_000.0;
/// Nanoseconds of work from which the next of the same kind goes in the other direction. Less is in
/// the cache anyway, and would turn the direction without having used it.
pub(super) const REVERSE_MIN_NS: f64 = 50_000.0;
/// Nanoseconds of work up to which other threads leave the caller's tasks alone.
pub(super) const SMALL_JOB_MAX_NS: f64 = 20_000.0;
/// Callers that are helped at once. The next one does its work alone.
pub(super) const JOB_BOARDS: usize = 4;
/// How often the caller of small work looks whether others are done before he does their tasks:
/// about two microseconds.
pub(super) const CALLER_POLLS: usize = 100;
/// Looks between two looks at the clock.
pub(super) const POLLS_PER_CLOCK_READ: usize = 32;
/// Bytes from which pieces are kept. Below, the system's allocator reuses memory by itself.
pub(super) const SHARED_CACHE_MIN_BYTES: usize = 64 << 10;
/// Bytes from which a thread keeps pieces for itself. Below, the system's allocator does.
pub(super) const THREAD_CACHE_MIN_BYTES: usize = 1 << 10;
/// So many pieces of less than [`SHARED_CACHE_MIN_BYTES`] each thread keeps.
pub(super) const THREAD_CACHE_MAX_PIECES: usize = 8;
/// Bytes that may be kept however little was ever in use.
pub(super) const CACHE_ALWAYS_KEPT_BYTES: u64 = 32 << 20;
/// Elements of the largest scratch buffer that is kept; larger ones go back to the system.
pub(super) const SCRATCH_MAX_KEPT_ELEMENTS: usize = 4 << 20;
/// Scratch buffers of a type that a thread keeps: a shared block, and two for a task.
pub(super) const SCRATCH_MAX_KEPT_BUFFERS: usize = 3;
/// Elements that a part of column blocks has at least, if there are so many.
pub(in crate::runtime) const COLUMN_BLOCKS_MIN_PART_ELEMENTS: usize = 1 << 13;
/// Elements that are made alone to see how long one takes.
pub(in crate::runtime) const PROBE_ELEMENTS: usize = 2048;
/// Elements that are worth several threads whatever is done to them: copying so many takes more
/// than [`PARALLEL_MIN_NS`].
pub(in crate::runtime) const ALWAYS_PARALLEL_MIN_ELEMENTS: usize = 1 << 15;
/// Nanoseconds that an element takes at least.
pub(in crate::runtime) const MIN_NS_PER_ELEMENT: f64 = 0.12;
/// Rows of a part of strided rows, at most.
pub(in crate::runtime) const STRIDED_MAX_ROWS_PER_PART: usize = 256;

/// Bytes of weights that may be packed unasked: small models whole, such as BERT's
/// 42 MiB.
pub(super) const PACK_UP_TO_BYTES: usize = 64 << 20;
/// Elements from which maps are put off: 512 KiB of f32, what leaves a second-level cache with its
/// operands. Fewer are faster one map after the other.
pub(super) const FUSE_FROM_ELEMENTS: usize = 1 << 17;

/// Threads of a pool: several times those of the largest machines. Beyond them a system may end the
/// process where it cannot give a thread its stack.
pub(super) const MAX_THREADS: usize = 4096;
