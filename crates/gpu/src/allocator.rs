//! The caching allocator: device memory of tensors, counted, limited, and kept for the next tensor.
//!
//! Work on a device runs in the order in which it was given, so a piece of memory can be used again
//! as soon as the tensor that had it is dropped: what still reads it comes before what will write
//! it. Pieces are kept by size class, eight to a power of two. Small ones are suballocated from
//! blocks, as a device has only so many allocations; large ones have memory of their own. When the
//! device has no more, or the limit is near, what is kept is freed and the allocation is tried
//! again.

use elinvar_core::{Error, MemoryStats, Result};
use elinvar_driver::{Driver, Slice};
use std::collections::BTreeMap;
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
}

#[derive(Debug)]
struct State<D: Driver> {
    /// Free pieces, by size; the one that was returned last is the last.
    free: BTreeMap<u64, Vec<Free<D>>>,
    stats: MemoryStats,
    /// Counts what is returned, so that the oldest is known.
    clock: u64,
}

#[derive(Debug)]
struct Free<D: Driver> {
    block: Arc<Block<D>>,
    offset: u64,
    since: u64,
}

/// Memory as the device gave it.
#[derive(Debug)]
pub(crate) struct Block<D: Driver> {
    memory: D::Memory,
    /// Pieces that it was cut into.
    pieces: u64,
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
    /// Where it is.
    pub(crate) fn place(&self) -> &BlockOffset<D> {
        &self.place
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
                    pool.take_back(self.place.clone(), self.class);
                }
            }
            PieceOwner::Capture(work) => work.take_back(self.place.clone(), self.class),
        }
    }
}

/// The memory of recorded work: pieces of the pool that are reserved as long as the work may be
/// done again. What is dropped while the work is recorded is used again in it.
#[derive(Debug)]
pub(crate) struct CaptureArena<D: Driver> {
    state: Mutex<CaptureArenaState<D>>,
}

#[derive(Debug)]
struct CaptureArenaState<D: Driver> {
    free: BTreeMap<u64, Vec<BlockOffset<D>>>,
    all: Vec<Piece<D>>,
    /// Pieces in use.
    out: usize,
}

impl<D: Driver> CaptureArena<D> {
    pub(crate) fn new() -> Arc<CaptureArena<D>> {
        Arc::new(CaptureArena {
            state: Mutex::new(CaptureArenaState { free: BTreeMap::new(), all: Vec::new(), out: 0 }),
        })
    }
    fn lock(&self) -> MutexGuard<'_, CaptureArenaState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A piece of at least so many bytes.
    ///
    /// # Errors
    /// As [`MemoryPool::take`].
    #[inline(never)]
    pub(crate) fn take(
        self: &Arc<Self>,
        pool: &Arc<MemoryPool<D>>,
        driver: &D,
        bytes: u64,
    ) -> Result<Piece<D>> {
        let class = class(bytes);
        let mut state = self.lock();
        let place = match state.free.get_mut(&class).and_then(Vec::pop) {
            Some(place) => place,
            None => {
                let piece = pool.take(driver, bytes)?;
                let place = piece.place.clone();
                state.all.push(piece);
                place
            }
        };
        state.out += 1;
        Ok(Piece { home: PieceOwner::Capture(self.clone()), place, class })
    }
    fn take_back(&self, place: BlockOffset<D>, class: u64) {
        let mut state = self.lock();
        state.out -= 1;
        state.free.entry(class).or_default().push(place);
    }
    /// How many pieces are in use.
    pub(crate) fn out(&self) -> usize {
        self.lock().out
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
    pub(crate) fn new() -> Arc<MemoryPool<D>> {
        let stats = MemoryStats { in_use: 0, peak: 0, cached: 0, limit: None, from_system: 0, from_cache: 0 };
        Arc::new(MemoryPool { state: Mutex::new(State { free: BTreeMap::new(), stats, clock: 0 }) })
    }
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        // A panic inside leaves at worst a wrong count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of at least so many bytes.
    ///
    /// # Errors
    /// `OutOfMemory` if the device or the limit refuses it, also without what is kept.
    #[inline(never)]
    pub(crate) fn take(self: &Arc<Self>, driver: &D, bytes: u64) -> Result<Piece<D>> {
        let class = class(bytes);
        let mut state = self.lock();
        let stats = state.stats;
        if stats.limit.is_some_and(|limit| stats.in_use + class > limit) {
            return Err(Error::memory(format!(
                "{}: {bytes} bytes more than the limit allows ({stats})",
                D::NAME
            )));
        }
        let (block, offset) = match state.reuse(class) {
            Some(found) => found,
            None => {
                let whole = if class <= MAX_SUBALLOCATED_BYTES { BLOCK_BYTES } else { class };
                drop(state);
                let memory = driver.allocate(whole).or_else(|e| {
                    // What is kept may be what is missing.
                    self.release();
                    driver.wait()?;
                    let stats = self.lock().stats;
                    driver.allocate(whole).map_err(|_| e.at(format!("{} ({stats})", D::NAME)))
                })?;
                state = self.lock();
                state.stats.from_system += 1;
                let pieces = whole / class;
                let block = Arc::new(Block { memory, pieces });
                // The first is for the caller.
                for i in (1..pieces).rev() {
                    state.keep(block.clone(), i * class, class);
                }
                (block, 0)
            }
        };
        state.stats.in_use += class;
        state.stats.peak = state.stats.peak.max(state.stats.in_use);
        Ok(Piece {
            home: PieceOwner::Pool(Arc::downgrade(self)),
            place: BlockOffset { block, offset },
            class,
        })
    }

    fn take_back(&self, place: BlockOffset<D>, class: u64) {
        let mut state = self.lock();
        state.stats.in_use -= class;
        state.keep(place.block, place.offset, class);
        let most = (state.stats.peak / 4).max(MIN_KEPT_BYTES);
        let gone = state.trim(most);
        // Memory is given back to the driver, which has locks of its own, outside of this one.
        drop(state);
        drop(gone);
    }
    /// Gives back what is only kept.
    pub(crate) fn release(&self) {
        let gone = self.lock().trim(0);
        drop(gone);
    }
    pub(crate) fn stats(&self) -> MemoryStats {
        self.lock().stats
    }
    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.lock().stats.limit = limit;
    }
}

impl<D: Driver> State<D> {
    fn reuse(&mut self, class: u64) -> Option<(Arc<Block<D>>, u64)> {
        let pieces = self.free.get_mut(&class)?;
        let piece = pieces.pop()?;
        self.stats.cached -= class;
        self.stats.from_cache += 1;
        Some((piece.block, piece.offset))
    }
    fn keep(&mut self, block: Arc<Block<D>>, offset: u64, class: u64) {
        self.clock += 1;
        self.stats.cached += class;
        self.free.entry(class).or_default().push(Free { block, offset, since: self.clock });
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
            let pieces = self.free.get_mut(&class).expect("it was just found");
            gone.push(pieces.remove(0));
            self.stats.cached -= class;
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
