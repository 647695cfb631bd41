//! The memory of recorded work.

use super::{BlockOffset, MemoryPool, Piece, PieceOwner, class};
use elinvar_core::Result;
use elinvar_driver::Driver;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    pub(super) fn take_back(&self, place: BlockOffset<D>, class: u64) {
        let mut state = self.lock();
        state.out -= 1;
        state.free.entry(class).or_default().push(place);
    }
    /// How many pieces are in use.
    pub(crate) fn out(&self) -> usize {
        self.lock().out
    }
}
