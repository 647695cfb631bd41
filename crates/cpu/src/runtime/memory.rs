//! The caching allocator for tensor memory: counted, limited, and reused.
//!
//! Fresh pages from the system are cleared first, which costs more than most kernels. So the memory
//! of large tensors goes to free lists by size class when it is dropped, and the next tensor of
//! about that size takes the most recently dropped piece, which is often still in a cache. Large
//! allocations ask for huge pages (`huge_pages.rs`). Small allocations are left to the system
//! allocator, except that each thread keeps its last few pieces of a kilobyte and more.
//!
//! All CPU devices of a process share this memory and its limit. Each thread counts its allocations
//! locally and adds them to the global count when they reach 64 KiB, so the reported usage may lack
//! that much for every other thread.

use super::plan::{
    CACHE_ALWAYS_KEPT_BYTES, SHARED_CACHE_MIN_BYTES, THREAD_CACHE_MAX_PIECES, THREAD_CACHE_MIN_BYTES,
};
use super::{huge_pages, memory_limit};
use elinvar_core::{DType, Element, HostData, HostVec, MemoryStats, Result, each_data, host};
use elinvar_simd::LINE;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a tensor holds, or work needs for a while. Its memory goes back to the cache.
#[derive(Debug)]
pub(crate) struct PooledData(HostData);

impl PooledData {
    #[inline]
    pub(crate) fn new(data: HostData) -> PooledData {
        count_bytes(bytes(&data) as i64);
        PooledData(data)
    }
    /// The same of elements.
    #[inline(always)]
    pub(crate) fn of<T: Element>(v: HostVec<T>) -> PooledData {
        count_bytes(v.allocated() as i64);
        PooledData(T::wrap(v))
    }
    pub(crate) fn data(&self) -> &HostData {
        &self.0
    }
    pub(crate) fn data_mut(&mut self) -> &mut HostData {
        &mut self.0
    }
}

impl Drop for PooledData {
    fn drop(&mut self) {
        count_bytes(-(bytes(&self.0) as i64));
        recycle(std::mem::replace(&mut self.0, HostData::U8(HostVec::new())));
    }
}

impl Deref for PooledData {
    type Target = HostData;
    fn deref(&self) -> &HostData {
        &self.0
    }
}

/// Elements that work needs for a while. Their memory goes back to the cache.
#[derive(Debug)]
pub(crate) struct PooledVec<T: Element>(HostVec<T>);

impl<T: Element> PooledVec<T> {
    /// Elements that were made for a while.
    pub(crate) fn of(v: HostVec<T>) -> PooledVec<T> {
        PooledVec(v)
    }
}

impl<T: Element> Deref for PooledVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Element> DerefMut for PooledVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Element> Drop for PooledVec<T> {
    fn drop(&mut self) {
        recycle(T::wrap(std::mem::take(&mut self.0)));
    }
}

/// Bytes in use, but for those that threads have not counted yet.
static IN_USE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static FREE_LISTS: Mutex<FreeLists> = Mutex::new(FreeLists::new());

/// Bytes that this thread took, less those that it gave back, since it last counted them for all: a
/// few numbers should not wait for another processor.
struct ThreadBytes(Cell<i64>);

thread_local! {
    static THREAD_BYTES: ThreadBytes = const { ThreadBytes(Cell::new(0)) };
}

impl Drop for ThreadBytes {
    fn drop(&mut self) {
        count_bytes_globally(self.0.take());
    }
}

/// So many bytes more are in use.
#[inline]
fn count_bytes(bytes: i64) {
    let here = |uncounted: &ThreadBytes| {
        let sum = uncounted.0.get() + bytes;
        if sum.unsigned_abs() < SHARED_CACHE_MIN_BYTES as u64 {
            uncounted.0.set(sum);
        } else {
            uncounted.0.set(0);
            count_bytes_globally(sum);
        }
    };
    // A thread that is just ending has nowhere to remember them.
    if THREAD_BYTES.try_with(here).is_err() {
        count_bytes_globally(bytes);
    }
}

#[cold]
fn count_bytes_globally(bytes: i64) {
    // What one thread took another may have given back and counted before: the sum wraps and comes
    // back.
    let now = IN_USE.fetch_add(bytes as u64, Relaxed).wrapping_add(bytes as u64);
    if now as i64 > PEAK.load(Relaxed) as i64 {
        PEAK.fetch_max(now, Relaxed);
    }
}

/// Bytes in use, as far as they are counted: less than [`SHARED_CACHE_MIN_BYTES`] of each other
/// thread are not.
pub(super) fn in_use() -> u64 {
    let _ = THREAD_BYTES.try_with(|uncounted| count_bytes_globally(uncounted.0.take()));
    (IN_USE.load(Relaxed) as i64).max(0) as u64
}

/// Bytes that a tensor's memory takes, used or not.
fn bytes(data: &HostData) -> u64 {
    each_data!(data, v => v.allocated() as u64)
}

/// Pieces of memory that are not in use.
struct FreeLists {
    /// For each dtype: pieces by their size class, in ascending order. There are few classes, and a
    /// search tree was 15 KB of every program.
    by_dtype: [Vec<(usize, Vec<FreePiece>)>; DType::ALL.len()],
    /// Bytes of all pieces.
    size: u64,
    /// Counts what is put in, so that the oldest is known.
    clock: u64,
    from_system: u64,
    from_cache: u64,
}

struct FreePiece {
    since: u64,
    /// Without elements.
    data: HostData,
}

/// Between two sizes of pieces: eight steps for each power of two, so a piece is at most an eighth
/// larger than needed.
fn class_step(bytes: usize) -> usize {
    1 << (bytes.max(8).ilog2() - 3)
}

/// The size of the pieces that serve so many bytes.
fn size_class(bytes: usize) -> usize {
    bytes.next_multiple_of(class_step(bytes))
}

/// The largest class that a piece of this size serves. It has to have room for what comes before
/// its first line.
fn size_class_below(bytes: usize) -> usize {
    let bytes = bytes.saturating_sub(LINE);
    bytes / class_step(bytes) * class_step(bytes)
}

impl FreeLists {
    const fn new() -> FreeLists {
        FreeLists {
            by_dtype: [const { Vec::new() }; DType::ALL.len()],
            size: 0,
            clock: 0,
            from_system: 0,
            from_cache: 0,
        }
    }
    fn lock() -> MutexGuard<'static, FreeLists> {
        // A panic inside leaves at worst a wrong count of bytes.
        FREE_LISTS.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A piece of this class, or a little larger: the one that was put in last.
    fn take(&mut self, dtype: DType, class: usize) -> Option<HostData> {
        let scratch_pool = &mut self.by_dtype[dtype as usize];
        let fit = scratch_pool.partition_point(|(c, _)| *c < class);
        let mut fit = scratch_pool[fit..].iter_mut().take_while(|(c, _)| *c <= class + class / 8);
        // An empty class stays: what is taken from it is mostly put there again.
        let piece = fit.find_map(|(_, pieces)| pieces.pop())?;
        self.size -= bytes(&piece.data);
        self.from_cache += 1;
        Some(piece.data)
    }
    fn put(&mut self, mut data: HostData) {
        each_data!(&mut data, v => v.clear());
        let size = bytes(&data);
        self.clock += 1;
        self.size += size;
        let (scratch_pool, class) =
            (&mut self.by_dtype[data.dtype() as usize], size_class_below(size as usize));
        let at = scratch_pool.binary_search_by_key(&class, |(c, _)| *c).unwrap_or_else(|at| {
            scratch_pool.insert(at, (class, Vec::new()));
            at
        });
        scratch_pool[at].1.push(FreePiece { since: self.clock, data });
    }
    /// Gives the oldest pieces back to the system until `size` bytes at most are kept.
    fn shrink(&mut self, size: u64) {
        while self.size > size {
            let by_dtype = self.by_dtype.iter_mut();
            let oldest = by_dtype
                .flat_map(|scratch_pool| scratch_pool.iter_mut().map(|(_, pieces)| pieces))
                .min_by_key(|pieces| pieces.first().map_or(u64::MAX, |p| p.since));
            let Some(pieces) = oldest.filter(|pieces| !pieces.is_empty()) else { return };
            self.size -= bytes(&pieces.remove(0).data);
            self.by_dtype
                .iter_mut()
                .for_each(|scratch_pool| scratch_pool.retain(|(_, pieces)| !pieces.is_empty()));
        }
    }
}

thread_local! {
    /// Pieces from [`THREAD_CACHE_MIN_BYTES`] on that this thread used last, the latest at the end.
    static THREAD_PIECES: RefCell<Vec<HostData>> = const { RefCell::new(Vec::new()) };
}

/// The memory of a piece from its first line on.
fn reuse<T: Element>(piece: HostData) -> Option<HostVec<T>> {
    T::unwrap(piece).map(|v| HostVec::at_line(v.into_memory()))
}

/// A piece of the thread's own of this class, or a little larger.
fn take_from_thread_cache(dtype: DType, class: usize) -> Option<HostData> {
    let take = |pieces: &RefCell<Vec<HostData>>| {
        let mut pieces = pieces.borrow_mut();
        let (least, most) = ((class + LINE) as u64, (class + class / 8 + LINE) as u64);
        let fits = |data: &HostData| data.dtype() == dtype && (least..=most).contains(&bytes(data));
        let found = pieces.iter().rposition(fits)?;
        Some(pieces.remove(found))
    };
    // A thread that is just ending has none.
    THREAD_PIECES.try_with(take).ok().flatten()
}

/// Puts memory that is no longer in use into the cache, or to the thread's own pieces.
pub(crate) fn recycle(mut data: HostData) {
    let size = bytes(&data);
    if size >= SHARED_CACHE_MIN_BYTES as u64 {
        FreeLists::lock().put(data);
    } else if size >= THREAD_CACHE_MIN_BYTES as u64 {
        each_data!(&mut data, v => v.clear());
        // A thread that is just ending gives it back to the system, as it does what is one too
        // many.
        let _ = THREAD_PIECES.try_with(|pieces| {
            let mut pieces = pieces.borrow_mut();
            if pieces.len() == THREAD_CACHE_MAX_PIECES {
                pieces.remove(0);
            }
            pieces.push(data);
        });
    }
}

/// Memory that a user brings, as a tensor's: a copy from a line's beginning on, unless it is small
/// or is so. (All that is computed from it reads it more slowly otherwise: `HostVec` says why.)
///
/// # Errors
/// `OutOfMemory` if the system or the limit refuses it.
pub(crate) fn adopt(data: HostData) -> Result<HostData> {
    let is_aligned = each_data!(&data, v => size_of_val(&v[..]) < THREAD_CACHE_MIN_BYTES || v.as_ptr().addr().is_multiple_of(LINE));
    if is_aligned {
        memory_limit::check(bytes(&data))?;
        return Ok(data);
    }
    copy(&data)
}

/// An empty vector with room for `len` elements.
///
/// # Errors
/// `OutOfMemory` if the system or the limit refuses it.
#[inline]
pub(crate) fn with_capacity<T: Element>(len: usize) -> Result<HostVec<T>> {
    let size = len.saturating_mul(size_of::<T>());
    memory_limit::check(size as u64)?;
    if size < THREAD_CACHE_MIN_BYTES || size > isize::MAX as usize / 2 {
        return host::with_capacity(len).map(HostVec::from);
    }
    pooled_with_capacity(len)
}

/// As [`with_capacity`], of elements that are not few.
fn pooled_with_capacity<T: Element>(len: usize) -> Result<HostVec<T>> {
    let size = len * size_of::<T>();
    let class = size_class(size);
    if let Some(v) = take_from_caches(T::DTYPE, class, size).and_then(reuse) {
        return Ok(v);
    }
    let dst = class / size_of::<T>();
    if class < SHARED_CACHE_MIN_BYTES {
        return HostVec::with_capacity(dst);
    }
    let mut v = match HostVec::with_capacity(dst) {
        Ok(v) => v,
        Err(_) => {
            // The system has no more: what is kept goes first.
            release();
            HostVec::with_capacity(len)?
        }
    };
    huge_pages::advise_huge_pages(v.spare_capacity_mut());
    Ok(v)
}

/// A piece of this class; if there is none, room is made for `size` bytes of the system's. It
/// stands here once, and not for each type.
fn take_from_caches(dtype: DType, class: usize, size: usize) -> Option<HostData> {
    if class < SHARED_CACHE_MIN_BYTES {
        return take_from_thread_cache(dtype, class);
    }
    let mut cache = FreeLists::lock();
    let piece = cache.take(dtype, class);
    if piece.is_none() {
        cache.from_system += 1;
        // What is kept for later must not make the process larger than it would be at its largest
        // anyway; a quarter more, since sizes change.
        let then = in_use() + size as u64;
        let peak = PEAK.load(Relaxed).max(then);
        let most =
            (peak + peak / 4).max(CACHE_ALWAYS_KEPT_BYTES).min(memory_limit::bytes().unwrap_or(u64::MAX));
        cache.shrink(most.saturating_sub(then));
    }
    piece
}

/// A vector of `len` copies of `value`.
///
/// # Errors
/// `OutOfMemory` if the system or the limit refuses it.
pub(crate) fn filled<T: Element>(len: usize, value: T) -> Result<HostVec<T>> {
    let mut v = with_capacity(len)?;
    v.resize(len, value);
    Ok(v)
}

/// The same elements in other memory.
///
/// # Errors
/// `OutOfMemory` if the system or the limit refuses it.
pub(crate) fn copy(data: &HostData) -> Result<HostData> {
    fn one<T: Element>(v: &[T]) -> Result<HostData> {
        let mut copy = with_capacity(v.len())?;
        copy.extend_from_slice(v);
        Ok(T::wrap(copy))
    }
    each_data!(data, v => one(v))
}

pub(crate) fn stats() -> MemoryStats {
    let cache = FreeLists::lock();
    MemoryStats {
        in_use: in_use(),
        peak: PEAK.load(Relaxed),
        cached: cache.size,
        limit: memory_limit::bytes(),
        from_system: cache.from_system,
        from_cache: cache.from_cache,
    }
}

/// Gives everything that is kept back to the system, but for the few small pieces of other threads.
pub(crate) fn release() {
    FreeLists::lock().shrink(0);
    let _ = THREAD_PIECES.try_with(|pieces| pieces.borrow_mut().clear());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for_and_little_more() {
        for size in (SHARED_CACHE_MIN_BYTES..SHARED_CACHE_MIN_BYTES * 40).step_by(977) {
            let c = size_class(size);
            assert!(c >= size && c <= size + size / 8 + 1, "{size}: {c}");
            assert_eq!(size_class_below(c + LINE), c, "{size}: a piece goes back to where it came from");
            assert_eq!(size_class(c), c);
        }
    }

    #[test]
    fn a_piece_is_found_again_and_the_oldest_goes_first() {
        let mut cache = FreeLists::new();
        assert!(cache.take(DType::F32, size_class(SHARED_CACHE_MIN_BYTES)).is_none());
        for n in [1, 2, 3] {
            cache.put(HostData::F32(
                HostVec::with_capacity(size_class(n * SHARED_CACHE_MIN_BYTES) / 4).unwrap(),
            ));
        }
        let total = cache.size;
        assert_eq!(total, (6 * SHARED_CACHE_MIN_BYTES + 3 * LINE) as u64);
        assert!(
            cache.take(DType::F64, size_class(SHARED_CACHE_MIN_BYTES)).is_none(),
            "memory of f32 is not for f64"
        );
        let v =
            cache.take(DType::F32, size_class(2 * SHARED_CACHE_MIN_BYTES)).and_then(reuse::<f32>).unwrap();
        assert!(
            v.is_empty()
                && v.allocated() == 2 * SHARED_CACHE_MIN_BYTES + LINE
                && v.capacity() * 4 >= 2 * SHARED_CACHE_MIN_BYTES
        );
        cache.shrink((3 * SHARED_CACHE_MIN_BYTES + LINE) as u64);
        assert!(cache.take(DType::F32, size_class(SHARED_CACHE_MIN_BYTES)).is_none(), "it was the oldest");
        assert!(cache.take(DType::F32, size_class(3 * SHARED_CACHE_MIN_BYTES)).is_some());
        assert_eq!(cache.size, 0);
    }

    #[test]
    fn memory_begins_with_a_line() {
        for len in [THREAD_CACHE_MIN_BYTES / 4, 1000, SHARED_CACHE_MIN_BYTES / 4, SHARED_CACHE_MIN_BYTES] {
            for again in [false, true] {
                let v = filled::<f32>(len, 1.0).unwrap();
                assert!(v.as_ptr().addr().is_multiple_of(LINE) && v.len() == len, "{len}, {again}");
                drop(PooledData::of(v));
            }
        }
        // What a user brought is kept, too.
        drop(PooledData::of(HostVec::from(vec![0.0f32; SHARED_CACHE_MIN_BYTES])));
        let v = filled::<f32>(SHARED_CACHE_MIN_BYTES - SHARED_CACHE_MIN_BYTES / 8, 1.0).unwrap();
        assert!(v.as_ptr().addr().is_multiple_of(LINE));
    }
}
