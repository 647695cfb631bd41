//! The memory of recorded work.

use super::{BlockOffset, MemoryPool, Piece, PieceOwner, class};
use crate::queues::Current;
use crate::uses::Uses;
use elinvar_core::Result;
use elinvar_driver::Driver;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of recorded work: pieces of the pool that are reserved as long as the work may be
/// done again. What is dropped while the work is recorded is used again in it.
#[derive(Debug)]
pub(crate) struct CaptureArena<D: Driver> {
    state: Mutex<CaptureArenaState<D>>,
    /// Of all pieces together: the work uses them all.
    uses: Uses,
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
            uses: Uses::default(),
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
        queue: &Current<'_, D>,
        bytes: u64,
    ) -> Result<Piece<D>> {
        let class = class(bytes);
        let mut state = self.lock();
        let place = match state.free.get_mut(&class).and_then(Vec::pop) {
            Some(place) => place,
            None => {
                let piece = pool.take(queue, bytes)?;
                let place = piece.place.clone();
                self.uses.lock().join(&piece.uses.lock());
                state.all.push(piece);
                place
            }
        };
        state.out += 1;
        Ok(Piece { home: PieceOwner::Capture(self.clone()), place, class, uses: Uses::default() })
    }
    pub(super) fn take_back(&self, place: BlockOffset<D>, class: u64) {
        let mut state = self.lock();
        state.out -= 1;
        state.free.entry(class).or_default().push(place);
    }
    /// Which queues have used it.
    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }
    /// How many pieces are in use.
    pub(crate) fn out(&self) -> usize {
        self.lock().out
    }
}

/// Its pieces go back to the pool with the uses of all of them.
impl<D: Driver> Drop for CaptureArena<D> {
    fn drop(&mut self) {
        let uses = self.uses.lock().clone();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.all.iter().for_each(|piece| piece.uses.lock().join(&uses));
    }
}
