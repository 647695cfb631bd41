//! The caching allocator: device memory of tensors, counted, limited, and kept for the next tensor.
//!
//! Work of a queue runs in the order in which it was given, so a piece of memory can be used again
//! in it as soon as the tensor that had it is dropped: what still reads it comes before what will
//! write it. A piece that another queue has used goes to that one's next tensors, and to others
//! behind an event: it keeps its uses while it is free. Pieces are kept by size class, eight to a
//! power of two. Small ones are suballocated from blocks, as a device has only so many allocations;
//! large ones have memory of their own, and all have where a launch cannot read one part of a block
//! and write another. When the device has no more, or the limit is near, what is kept is freed and
//! the allocation is tried again.
//!
//! With `Settings::pool_initial` or `pool_growth`, pieces are cut from regions instead (`regions`);
//! what is kept goes back to its region when another size is needed. `Settings::pool_maximum`
//! counts what was taken from the device, in use or not.

mod capture_arena;
mod regions;

pub(crate) use capture_arena::CaptureArena;

use crate::queues::Current;
use crate::uses::{UseList, Uses};
use elinvar_core::{Error, ErrorKind, MemoryStats, Result, Settings};
use elinvar_driver::{Driver, Slice};
use regions::Regions;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes up to which pieces are cut from blocks, and the bytes of a block.
const MAX_SUBALLOCATED_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u64 = 1 << 20;
/// Smallest piece, and what all sizes are multiples of: no device asks for more than 256.
const ALIGN_BYTES: u64 = 256;
/// Bytes that may be kept however little was ever in use.
const MIN_KEPT_BYTES: u64 = 64 << 20;

/// The pool of a device.
#[derive(Debug)]
pub(crate) struct MemoryPool<D: Driver> {
    state: Mutex<State<D>>,
    /// Bytes taken from the device.
    reserved: Arc<AtomicU64>,
    /// As [`Settings::pool_maximum`] and [`Settings::pool_growth`].
    maximum: Option<u64>,
    growth: Option<u64>,
    /// As `Info::suballocates`.
    suballocates: bool,
}

#[derive(Debug)]
struct State<D: Driver> {
    /// Free pieces, by size; the one that was returned last is the last.
    free: BTreeMap<u64, Vec<Free<D>>>,
    regions: Regions<D>,
    /// Of what is cached, those pieces alone that are free here.
    stats: MemoryStats,
    /// The limit that a device was built with, until another is set.
    claimed_limit: Option<u64>,
    /// Counts what is returned, so that the oldest is known.
    clock: u64,
}

/// Bytes that are counted as taken from the device until this is dropped.
#[derive(Debug)]
struct Reserved {
    bytes: u64,
    count: Arc<AtomicU64>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.count.fetch_sub(self.bytes, Relaxed);
    }
}

#[derive(Debug)]
struct Free<D: Driver> {
    block: Arc<Block<D>>,
    offset: u64,
    since: u64,
    uses: UseList,
}

/// Memory as the device gave it.
#[derive(Debug)]
pub(crate) struct Block<D: Driver> {
    memory: D::Memory,
    /// Pieces that it was cut into; none of a region, which is cut as needed.
    pieces: u64,
    /// After the memory, which is given back first.
    _reserved: Reserved,
}

impl<D: Driver> Block<D> {
    fn is_region(&self) -> bool {
        self.pieces == 0
    }
}

/// Where pieces come from, and go back to.
#[derive(Debug)]
pub(crate) enum PieceOwner<D: Driver> {
    /// The device's memory.
    Pool(Weak<MemoryPool<D>>),
    /// The memory of recorded work.
    Capture(Arc<CaptureArena<D>>),
}

/// Memory in use. It goes back to where it came from when it is dropped.
#[derive(Debug)]
pub(crate) struct Piece<D: Driver> {
    home: PieceOwner<D>,
    place: BlockOffset<D>,
    class: u64,
    /// Which queues have used it.
    uses: Uses,
}

/// The first bytes of a piece, which a launch reads or writes.
#[derive(Debug)]
pub(crate) struct PieceRange<'a, D: Driver> {
    pub(crate) piece: &'a Arc<Piece<D>>,
    /// Bytes before them.
    skipped: u64,
    bytes: u64,
}

impl<D: Driver> Clone for PieceRange<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D: Driver> Copy for PieceRange<'_, D> {}

impl<'a, D: Driver> PieceRange<'a, D> {
    /// So many bytes of a piece.
    pub(crate) fn new(piece: &'a Arc<Piece<D>>, bytes: u64) -> Self {
        debug_assert!(bytes <= piece.class, "{bytes} bytes of a piece of {}", piece.class);
        // A binding has at least one element of every type.
        PieceRange { piece, skipped: 0, bytes: bytes.max(16) }
    }
    /// Without its first bytes, of which there are more.
    pub(crate) fn skip(self, bytes: u64) -> Self {
        assert!(bytes < self.bytes, "a view looks at something");
        PieceRange { skipped: self.skipped + bytes, bytes: self.bytes - bytes, ..self }
    }
    /// As a driver takes it.
    pub(crate) fn slice(&self) -> Slice<'a, D> {
        let BlockOffset { block, offset } = &self.piece.place;
        Slice { memory: &block.memory, offset: offset + self.skipped, len: self.bytes }
    }
    /// Where it is, and how many bytes.
    pub(crate) fn place(&self) -> (BlockOffset<D>, u64) {
        let BlockOffset { block, offset } = &self.piece.place;
        (BlockOffset { block: block.clone(), offset: offset + self.skipped }, self.bytes)
    }
}

/// Where bytes of a device are.
#[derive(Debug)]
pub(crate) struct BlockOffset<D: Driver> {
    block: Arc<Block<D>>,
    offset: u64,
}

impl<D: Driver> Clone for BlockOffset<D> {
    fn clone(&self) -> Self {
        BlockOffset { block: self.block.clone(), offset: self.offset }
    }
}

impl<D: Driver> BlockOffset<D> {
    /// The first bytes there.
    pub(crate) fn slice(&self, len: u64) -> Slice<'_, D> {
        Slice { memory: &self.block.memory, offset: self.offset, len }
    }
}

impl<D: Driver> Piece<D> {
    /// Which queues have used it: of recorded work, any of its pieces.
    pub(crate) fn uses(&self) -> &Uses {
        match &self.home {
            PieceOwner::Pool(_) => &self.uses,
            PieceOwner::Capture(work) => work.uses(),
        }
    }
    /// Does it belong to this recorded work?
    pub(crate) fn is_of(&self, work: &Arc<CaptureArena<D>>) -> bool {
        match &self.home {
            PieceOwner::Pool(_) => false,
            PieceOwner::Capture(make_unique) => Arc::ptr_eq(make_unique, work),
        }
    }
}

impl<D: Driver> Drop for Piece<D> {
    #[inline(never)]
    fn drop(&mut self) {
        match &self.home {
            PieceOwner::Pool(pool) => {
                if let Some(pool) = pool.upgrade() {
                    let uses = std::mem::take(&mut *self.uses.lock());
                    pool.take_back(self.place.clone(), self.class, uses);
                }
            }
            PieceOwner::Capture(work) => work.take_back(self.place.clone(), self.class),
        }
    }
}

/// The size of the pieces that serve so many bytes: an eighth too large at most, but for the
/// smallest.
fn class(bytes: u64) -> u64 {
    let bytes = bytes.max(1).next_multiple_of(ALIGN_BYTES);
    let step = (1 << (bytes.ilog2().max(3) - 3)).max(ALIGN_BYTES);
    bytes.next_multiple_of(step)
}

impl<D: Driver> MemoryPool<D> {
    pub(crate) fn new(settings: &Settings, suballocates: bool) -> Arc<MemoryPool<D>> {
        let stats = MemoryStats { limit: settings.memory_limit, ..MemoryStats::default() };
        let state = State {
            free: BTreeMap::new(),
            regions: Regions::default(),
            stats,
            claimed_limit: None,
            clock: 0,
        };
        Arc::new(MemoryPool {
            state: Mutex::new(state),
            reserved: Arc::default(),
            maximum: settings.pool_maximum,
            growth: settings.pool_growth,
            suballocates,
        })
    }
    /// Takes so many bytes from the device, rounded down to what pieces are aligned to, and keeps
    /// them.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn preallocate(&self, driver: &D, bytes: u64) -> Result<()> {
        let largest = driver.info().largest.min(bytes) / ALIGN_BYTES * ALIGN_BYTES;
        let mut left = bytes / ALIGN_BYTES * ALIGN_BYTES;
        while left > 0 {
            let part = left.min(largest);
            let reserved = self.reserve(part, part)?;
            let memory = driver.allocate(part)?;
            let mut state = self.lock();
            state.stats.from_system += 1;
            let block = Arc::new(Block { memory, pieces: 0, _reserved: reserved });
            state.regions.add(block, part, true, UseList::default());
            left -= part;
        }
        Ok(())
    }
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A panic inside leaves at worst a wrong count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of at least so many bytes, for a queue: one that it need not wait for, if the device
    /// has one.
    ///
    /// # Errors
    /// `OutOfMemory` if the device or the limit refuses it, also without what is kept.
    #[inline(never)]
    pub(crate) fn take(self: &Arc<Self>, queue: &Current<'_, D>, bytes: u64) -> Result<Piece<D>> {
        let class = class(bytes);
        let mut state = self.lock();
        let stats = state.stats();
        if stats.limit.is_some_and(|limit| stats.in_use + class > limit) {
            return Err(Error::memory(format!(
                "{}: {bytes} bytes more than the limit allows ({stats})",
                D::NAME
            )));
        }
        let free = |uses: &UseList| queue.is_free(uses);
        let found = state.reuse(class, free).or_else(|| state.cut(class, free));
        let (place, uses) = match found {
            Some(found) => found,
            None => {
                drop(state);
                let grown = self.grow(queue, class);
                state = self.lock();
                match grown {
                    // What another queue uses is better than nothing.
                    Err(e) if e.kind() == ErrorKind::OutOfMemory => state.reuse(class, |_| true).ok_or(e)?,
                    grown => grown?,
                }
            }
        };
        state.stats.in_use += class;
        state.stats.peak = state.stats.peak.max(state.stats.in_use);
        Ok(Piece { home: PieceOwner::Pool(Arc::downgrade(self)), place, class, uses: Uses::new(uses) })
    }

    /// A piece of a class from memory that the device gives now; the rest of that is kept.
    fn grow(&self, queue: &Current<'_, D>, class: u64) -> Result<(BlockOffset<D>, UseList)> {
        let driver = queue.driver();
        let is_small = class <= MAX_SUBALLOCATED_BYTES && self.growth.is_none() && self.suballocates;
        let least = if is_small { BLOCK_BYTES } else { class };
        let step = self.growth.map_or(least, |bytes| bytes.min(driver.info().largest));
        let mut reserved = self.reserve(least, (step / ALIGN_BYTES * ALIGN_BYTES).max(least))?;
        let memory = driver.allocate(reserved.bytes).or_else(|e| {
            // What is kept may be what is missing.
            self.release();
            driver.wait()?;
            driver.allocate(reserved.bytes).or_else(|_| {
                // A step that is too large is not a piece that is too large.
                let more = reserved.bytes - least;
                reserved.bytes = least;
                self.reserved.fetch_sub(more, Relaxed);
                let stats = self.stats();
                driver.allocate(least).map_err(|_| e.at(format!("{} ({stats})", D::NAME)))
            })
        })?;
        let (whole, uses) = (reserved.bytes, queue.allocated());
        let mut state = self.lock();
        state.stats.from_system += 1;
        if self.growth.is_some() {
            let block = Arc::new(Block { memory, pieces: 0, _reserved: reserved });
            state.regions.add(block, whole, false, uses);
            // Another thread may take of it only when this one has.
            let free = |uses: &UseList| queue.is_free(uses);
            return Ok(state.regions.take(class, free).expect("a region has room for what it was made for"));
        }
        let pieces = whole / class;
        let block = Arc::new(Block { memory, pieces, _reserved: reserved });
        // The first is for the caller.
        for i in (1..pieces).rev() {
            state.keep(block.clone(), i * class, class, uses.clone());
        }
        Ok((BlockOffset { block, offset: 0 }, uses))
    }

    /// Counts `wanted` bytes as taken, or what the maximum leaves of them, if that is `least` at
    /// least, if need be without what is kept.
    ///
    /// # Errors
    /// `OutOfMemory` if the maximum leaves less.
    fn reserve(&self, least: u64, wanted: u64) -> Result<Reserved> {
        let most = self.maximum.unwrap_or(u64::MAX);
        let part = |taken: u64| {
            let room = most.saturating_sub(taken) / ALIGN_BYTES * ALIGN_BYTES;
            wanted.min(room)
        };
        let take = || {
            let more = |taken: u64| Some(part(taken)).filter(|p| *p >= least).map(|p| taken + p);
            let before = self.reserved.fetch_update(Relaxed, Relaxed, more).ok()?;
            Some(Reserved { bytes: part(before), count: self.reserved.clone() })
        };
        let taken = take().or_else(|| {
            self.release();
            take()
        });
        taken.ok_or_else(|| {
            Error::memory(format!(
                "{}: {least} bytes more than pool_maximum, {most} bytes, allows ({})",
                D::NAME,
                self.stats()
            ))
        })
    }

    fn take_back(&self, place: BlockOffset<D>, class: u64, uses: UseList) {
        let mut state = self.lock();
        state.stats.in_use -= class;
        state.keep(place.block, place.offset, class, uses);
        let most = (state.stats.peak / 4).max(MIN_KEPT_BYTES);
        let gone = state.trim(most);
        // Memory is given back to the driver, which has locks of its own, outside of this one.
        drop(state);
        drop(gone);
    }
    /// Gives back what is only kept, but for the memory that the pool began with.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        let gone = state.trim(0);
        state.merge();
        let regions = state.regions.take_free();
        drop(state);
        drop((gone, regions));
    }
    pub(crate) fn stats(&self) -> MemoryStats {
        self.lock().stats()
    }
    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        let mut state = self.lock();
        state.claimed_limit = None;
        state.stats.limit = limit;
    }
    /// Sets the limit for a device that is built with it.
    ///
    /// # Errors
    /// `InvalidArgument` if it was built with another before.
    pub(crate) fn claim_limit(&self, device: &str, limit: u64) -> Result<()> {
        let mut state = self.lock();
        if let Some(other) = state.claimed_limit.filter(|other| *other != limit) {
            return Err(Error::argument(format!(
                "{device}: memory_limit is {limit} bytes, and the device was built with {other}; `set_memory_limit` \
                 changes it for all that use it"
            )));
        }
        state.claimed_limit = Some(limit);
        state.stats.limit = Some(limit);
        Ok(())
    }
}

impl<D: Driver> State<D> {
    fn stats(&self) -> MemoryStats {
        MemoryStats { cached: self.stats.cached + self.regions.free(), ..self.stats }
    }
    /// The piece that was returned last among those that are free for the caller.
    fn reuse(&mut self, class: u64, free: impl Fn(&UseList) -> bool) -> Option<(BlockOffset<D>, UseList)> {
        let pieces = self.free.get_mut(&class)?;
        let last = pieces.iter().rposition(|p| free(&p.uses))?;
        let Free { block, offset, uses, .. } = pieces.remove(last);
        self.stats.cached -= class;
        self.stats.from_cache += 1;
        Some((BlockOffset { block, offset }, uses))
    }
    /// A piece of a region, if need be of what is kept for other sizes.
    fn cut(&mut self, class: u64, free: impl Fn(&UseList) -> bool) -> Option<(BlockOffset<D>, UseList)> {
        if self.regions.is_empty() {
            return None;
        }
        let found = match self.regions.take(class, &free) {
            Some(found) => found,
            None => {
                self.merge();
                self.regions.take(class, &free)?
            }
        };
        self.stats.from_cache += 1;
        Some(found)
    }
    /// Puts pieces that are kept back into their regions.
    fn merge(&mut self) {
        if self.regions.is_empty() {
            return;
        }
        for (class, pieces) in &mut self.free {
            for p in pieces.extract_if(.., |p| p.block.is_region()) {
                self.stats.cached -= class;
                self.regions.give(&p.block, p.offset, *class, &p.uses);
            }
        }
        self.free.retain(|_, p| !p.is_empty());
    }
    fn keep(&mut self, block: Arc<Block<D>>, offset: u64, class: u64, uses: UseList) {
        self.clock += 1;
        self.stats.cached += class;
        self.free.entry(class).or_default().push(Free { block, offset, since: self.clock, uses });
    }
    /// Takes out pieces until at most so many bytes are kept: large ones, the oldest first; if that
    /// is not enough, blocks all of whose pieces are free. The caller drops them.
    #[inline(never)]
    fn trim(&mut self, most: u64) -> Vec<Free<D>> {
        let mut gone = Vec::new();
        while self.stats.cached > most {
            let large =
                self.free.iter().filter(|(class, p)| **class > MAX_SUBALLOCATED_BYTES && !p.is_empty());
            let Some(class) = large.min_by_key(|(_, p)| p[0].since).map(|(&class, _)| class) else { break };
            let piece = self.free.get_mut(&class).expect("it was just found").remove(0);
            self.stats.cached -= class;
            if piece.block.is_region() {
                self.regions.give(&piece.block, piece.offset, class, &piece.uses);
            } else {
                gone.push(piece);
            }
        }
        if self.stats.cached > most {
            for (class, pieces) in self.free.range_mut(..=MAX_SUBALLOCATED_BYTES) {
                let mut free: BTreeMap<*const Block<D>, u64> = BTreeMap::new();
                pieces.iter().for_each(|p| *free.entry(Arc::as_ptr(&p.block)).or_default() += 1);
                let whole = |p: &Free<D>| free[&Arc::as_ptr(&p.block)] == p.block.pieces;
                let (out, stay): (Vec<_>, Vec<_>) = pieces.drain(..).partition(whole);
                self.stats.cached -= class * out.len() as u64;
                gone.extend(out);
                *pieces = stay;
            }
        }
        self.free.retain(|_, p| !p.is_empty());
        gone
    }
}
