//! The memory of tensors on the CPU: counted, limited, and kept for the next tensor.
//!
//! A page that the system hands out is cleared first, at a tenth of the speed at which memory is written; a large result in
//! fresh pages costs mostly that. So memory of large tensors is not given back to the system when it is dropped, but kept
//! here, by size, and the next tensor of about that size takes the piece that was dropped last, which is often still
//! in a processor's cache. Large ones are asked for in large pages (`simd/pages.rs`). The smallest pieces are left to the system's
//! allocator, which is good at them; it takes longer over those of a kilobyte and more, so each thread keeps the last few.
//!
//! All CPU devices of a process share this memory, and its limit. Each thread counts what it takes and gives back, and adds it to
//! the common count when it comes to 64 KiB; so of every other thread that much may be missing in what is asked for.

use super::huge_pages;
use crate::simd::LINE;
use elinvar_core::{DType, Element, Error, HostData, HostVec, MemoryStats, Result, each_data, host};
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes from which pieces are kept. Below, the system's allocator reuses memory by itself.
const LARGE: usize = 64 << 10;
/// Bytes from which a thread keeps pieces for itself. Below, the system's allocator does.
const MIDDLE: usize = 1 << 10;
/// So many pieces of less than [`LARGE`] each thread keeps.
const NEAR: usize = 8;
/// Bytes that may be kept however little was ever in use.
const FLOOR: u64 = 32 << 20;

/// What a tensor holds, or work needs for a while. Its memory goes back to the cache.
#[derive(Debug)]
pub(crate) struct Held(HostData);

impl Held {
    #[inline]
    pub(crate) fn new(data: HostData) -> Held {
        count(bytes(&data) as i64);
        Held(data)
    }
    /// The same of elements.
    #[inline(always)]
    pub(crate) fn of<T: Element>(v: HostVec<T>) -> Held {
        count(v.allocated() as i64);
        Held(T::wrap(v))
    }
    pub(crate) fn data(&self) -> &HostData {
        &self.0
    }
    pub(crate) fn data_mut(&mut self) -> &mut HostData {
        &mut self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        count(-(bytes(&self.0) as i64));
        keep(std::mem::replace(&mut self.0, HostData::U8(HostVec::new())));
    }
}

impl Deref for Held {
    type Target = HostData;
    fn deref(&self) -> &HostData {
        &self.0
    }
}

/// Elements that work needs for a while. Their memory goes back to the cache.
#[derive(Debug)]
pub(crate) struct Scratch<T: Element>(HostVec<T>);

impl<T: Element> Scratch<T> {
    /// Elements that were made for a while.
    pub(crate) fn of(v: HostVec<T>) -> Scratch<T> {
        Scratch(v)
    }
}

impl<T: Element> Deref for Scratch<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Element> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Element> Drop for Scratch<T> {
    fn drop(&mut self) {
        keep(T::wrap(std::mem::take(&mut self.0)));
    }
}

/// Bytes in use, but for those that threads have not counted yet.
static IN_USE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
/// `u64::MAX`: none.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static CACHE: Mutex<Cache> = Mutex::new(Cache::new());

/// Bytes that this thread took, less those that it gave back, since it last counted them for all: a few numbers should not
/// wait for another processor.
struct Uncounted(Cell<i64>);

thread_local! {
    static UNCOUNTED: Uncounted = const { Uncounted(Cell::new(0)) };
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        count_for_all(self.0.take());
    }
}

/// So many bytes more are in use.
#[inline]
fn count(bytes: i64) {
    let here = |uncounted: &Uncounted| {
        let sum = uncounted.0.get() + bytes;
        if sum.unsigned_abs() < LARGE as u64 {
            uncounted.0.set(sum);
        } else {
            uncounted.0.set(0);
            count_for_all(sum);
        }
    };
    // A thread that is just ending has nowhere to remember them.
    if UNCOUNTED.try_with(here).is_err() {
        count_for_all(bytes);
    }
}

#[cold]
fn count_for_all(bytes: i64) {
    // What one thread took another may have given back and counted before: the sum wraps and comes back.
    let now = IN_USE.fetch_add(bytes as u64, Relaxed).wrapping_add(bytes as u64);
    if now as i64 > PEAK.load(Relaxed) as i64 {
        PEAK.fetch_max(now, Relaxed);
    }
}

/// Bytes in use, as far as they are counted: less than [`LARGE`] of each other thread are not.
fn in_use() -> u64 {
    let _ = UNCOUNTED.try_with(|uncounted| count_for_all(uncounted.0.take()));
    (IN_USE.load(Relaxed) as i64).max(0) as u64
}

/// Bytes that a tensor's memory takes, used or not.
fn bytes(data: &HostData) -> u64 {
    each_data!(data, v => v.allocated() as u64)
}

/// Pieces of memory that nobody uses.
struct Cache {
    /// For each dtype: pieces by their size class, in ascending order. There are few classes, and a search tree was
    /// 15 KB of every program.
    shelves: [Vec<(usize, Vec<Piece>)>; 8],
    /// Bytes of all pieces.
    size: u64,
    /// Counts what is put in, so that the oldest is known.
    clock: u64,
    from_system: u64,
    from_cache: u64,
}

struct Piece {
    since: u64,
    /// Without elements.
    data: HostData,
}

/// Between two sizes of pieces: eight steps for each power of two, so a piece is at most an eighth larger than needed.
fn step(bytes: usize) -> usize {
    1 << (bytes.max(8).ilog2() - 3)
}

/// The size of the pieces that serve so many bytes.
fn class(bytes: usize) -> usize {
    bytes.next_multiple_of(step(bytes))
}

/// The largest class that a piece of this size serves. It has to have room for what comes before its first line.
fn class_below(bytes: usize) -> usize {
    let bytes = bytes.saturating_sub(LINE);
    bytes / step(bytes) * step(bytes)
}

impl Cache {
    const fn new() -> Cache {
        Cache { shelves: [const { Vec::new() }; 8], size: 0, clock: 0, from_system: 0, from_cache: 0 }
    }
    fn lock() -> MutexGuard<'static, Cache> {
        // A panic inside leaves at worst a wrong count of bytes.
        CACHE.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A piece of this class, or a little larger: the one that was put in last.
    fn take(&mut self, dtype: DType, class: usize) -> Option<HostData> {
        let shelf = &mut self.shelves[dtype as usize];
        let fit = shelf.partition_point(|(c, _)| *c < class);
        let mut fit = shelf[fit..].iter_mut().take_while(|(c, _)| *c <= class + class / 8);
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
        let (shelf, class) = (&mut self.shelves[data.dtype() as usize], class_below(size as usize));
        let at = shelf.binary_search_by_key(&class, |(c, _)| *c).unwrap_or_else(|at| {
            shelf.insert(at, (class, Vec::new()));
            at
        });
        shelf[at].1.push(Piece { since: self.clock, data });
    }
    /// Gives the oldest pieces back to the system until `size` bytes at most are kept.
    fn shrink(&mut self, size: u64) {
        while self.size > size {
            let shelves = self.shelves.iter_mut();
            let oldest = shelves
                .flat_map(|shelf| shelf.iter_mut().map(|(_, pieces)| pieces))
                .min_by_key(|pieces| pieces.first().map_or(u64::MAX, |p| p.since));
            let Some(pieces) = oldest.filter(|pieces| !pieces.is_empty()) else { return };
            self.size -= bytes(&pieces.remove(0).data);
            self.shelves.iter_mut().for_each(|shelf| shelf.retain(|(_, pieces)| !pieces.is_empty()));
        }
    }
}

thread_local! {
    /// Pieces from [`MIDDLE`] on that this thread used last, the latest at the end.
    static PIECES: RefCell<Vec<HostData>> = const { RefCell::new(Vec::new()) };
}

/// The memory of a piece from its first line on.
fn again<T: Element>(piece: HostData) -> Option<HostVec<T>> {
    T::unwrap(piece).map(|v| HostVec::at_line(v.into_memory()))
}

/// A piece of the thread's own of this class, or a little larger.
fn near(dtype: DType, class: usize) -> Option<HostData> {
    let take = |pieces: &RefCell<Vec<HostData>>| {
        let mut pieces = pieces.borrow_mut();
        let (least, most) = ((class + LINE) as u64, (class + class / 8 + LINE) as u64);
        let fits = |data: &HostData| data.dtype() == dtype && (least..=most).contains(&bytes(data));
        let found = pieces.iter().rposition(fits)?;
        Some(pieces.remove(found))
    };
    // A thread that is just ending has none.
    PIECES.try_with(take).ok().flatten()
}

/// Puts memory that nobody uses any more into the cache, or to the thread's own pieces.
pub(crate) fn keep(mut data: HostData) {
    let size = bytes(&data);
    if size >= LARGE as u64 {
        Cache::lock().put(data);
    } else if size >= MIDDLE as u64 {
        each_data!(&mut data, v => v.clear());
        // A thread that is just ending gives it back to the system, as it does what is one too many.
        let _ = PIECES.try_with(|pieces| {
            let mut pieces = pieces.borrow_mut();
            if pieces.len() == NEAR {
                pieces.remove(0);
            }
            pieces.push(data);
        });
    }
}

/// May so many bytes more be in use?
///
/// # Errors
/// `OutOfMemory` if the limit does not allow them.
#[inline]
fn within_limit(size: u64) -> Result<()> {
    let limit = LIMIT.load(Relaxed);
    if limit == u64::MAX { Ok(()) } else { within(size, limit) }
}

fn within(size: u64, limit: u64) -> Result<()> {
    let in_use = in_use();
    if in_use.saturating_add(size) > limit {
        return Err(Error::memory(format!(
            "out of memory: {size} bytes more than the {in_use} in use are over the limit of {limit}"
        )));
    }
    Ok(())
}

/// Memory that a user brings, as a tensor's: a copy from a line's beginning on, unless it is small or lies so. (All that is computed from it
/// reads it more slowly otherwise: `HostVec` says why.)
///
/// # Errors
/// `OutOfMemory` if the system or the limit refuses it.
pub(crate) fn brought(data: HostData) -> Result<HostData> {
    let lies = each_data!(&data, v => size_of_val(&v[..]) < MIDDLE || v.as_ptr().addr().is_multiple_of(LINE));
    if lies {
        within_limit(bytes(&data))?;
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
    within_limit(size as u64)?;
    if size < MIDDLE || size > isize::MAX as usize / 2 {
        return host::with_capacity(len).map(HostVec::from);
    }
    kept_or_new(len)
}

/// As [`with_capacity`], of elements that are not few.
fn kept_or_new<T: Element>(len: usize) -> Result<HostVec<T>> {
    let size = len * size_of::<T>();
    let class = class(size);
    if let Some(v) = kept(T::DTYPE, class, size).and_then(again) {
        return Ok(v);
    }
    let room = class / size_of::<T>();
    if class < LARGE {
        return HostVec::with_capacity(room);
    }
    let mut v = match HostVec::with_capacity(room) {
        Ok(v) => v,
        Err(_) => {
            // The system has no more: what is kept goes first.
            release();
            HostVec::with_capacity(len)?
        }
    };
    huge_pages::in_large_ones(v.spare_capacity_mut());
    Ok(v)
}

/// A piece of this class; if there is none, room is made for `size` bytes of the system's. It stands here once, and not for each type.
fn kept(dtype: DType, class: usize, size: usize) -> Option<HostData> {
    if class < LARGE {
        return near(dtype, class);
    }
    let mut cache = Cache::lock();
    let piece = cache.take(dtype, class);
    if piece.is_none() {
        cache.from_system += 1;
        // What is kept for later must not make the process larger than it would be at its largest anyway; a quarter more,
        // since sizes change.
        let then = in_use() + size as u64;
        let peak = PEAK.load(Relaxed).max(then);
        let most = (peak + peak / 4).max(FLOOR).min(LIMIT.load(Relaxed));
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
    let cache = Cache::lock();
    let limit = LIMIT.load(Relaxed);
    MemoryStats {
        in_use: in_use(),
        peak: PEAK.load(Relaxed),
        cached: cache.size,
        limit: (limit != u64::MAX).then_some(limit),
        from_system: cache.from_system,
        from_cache: cache.from_cache,
    }
}

/// Is there a limit?
pub(crate) fn is_limited() -> bool {
    LIMIT.load(Relaxed) != u64::MAX
}

pub(crate) fn set_limit(limit: Option<u64>) {
    LIMIT.store(limit.unwrap_or(u64::MAX), Relaxed);
}

/// Gives everything that is kept back to the system, but for the few small pieces of other threads.
pub(crate) fn release() {
    Cache::lock().shrink(0);
    let _ = PIECES.try_with(|pieces| pieces.borrow_mut().clear());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for_and_little_more() {
        for size in (LARGE..LARGE * 40).step_by(977) {
            let c = class(size);
            assert!(c >= size && c <= size + size / 8 + 1, "{size}: {c}");
            assert_eq!(class_below(c + LINE), c, "{size}: a piece goes back to where it came from");
            assert_eq!(class(c), c);
        }
    }

    #[test]
    fn a_piece_is_found_again_and_the_oldest_goes_first() {
        let mut cache = Cache::new();
        assert!(cache.take(DType::F32, class(LARGE)).is_none());
        for n in [1, 2, 3] {
            cache.put(HostData::F32(HostVec::with_capacity(class(n * LARGE) / 4).unwrap()));
        }
        let total = cache.size;
        assert_eq!(total, (6 * LARGE + 3 * LINE) as u64);
        assert!(cache.take(DType::F64, class(LARGE)).is_none(), "memory of f32 is not for f64");
        let v = cache.take(DType::F32, class(2 * LARGE)).and_then(again::<f32>).unwrap();
        assert!(v.is_empty() && v.allocated() == 2 * LARGE + LINE && v.capacity() * 4 >= 2 * LARGE);
        cache.shrink((3 * LARGE + LINE) as u64);
        assert!(cache.take(DType::F32, class(LARGE)).is_none(), "it was the oldest");
        assert!(cache.take(DType::F32, class(3 * LARGE)).is_some());
        assert_eq!(cache.size, 0);
    }

    #[test]
    fn memory_begins_with_a_line() {
        for len in [MIDDLE / 4, 1000, LARGE / 4, LARGE] {
            for again in [false, true] {
                let v = filled::<f32>(len, 1.0).unwrap();
                assert!(v.as_ptr().addr().is_multiple_of(LINE) && v.len() == len, "{len}, {again}");
                drop(Held::of(v));
            }
        }
        // What a user brought is kept, too.
        drop(Held::of(HostVec::from(vec![0.0f32; LARGE])));
        let v = filled::<f32>(LARGE - LARGE / 8, 1.0).unwrap();
        assert!(v.as_ptr().addr().is_multiple_of(LINE));
    }
}
