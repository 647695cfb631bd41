//! Prefetching: batches made ahead by other threads, in order, within a memory limit.
//!
//! Workers take batch indices one after the other and store the batches by index, so the consumer
//! gets them in order. How it can be wrong: a deadlock of a worker that waits for capacity while
//! the consumer waits for its batch. So the batch that the consumer waits for may always be
//! started.

use elinvar_core::{Error, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The limits of prefetching.
///
/// The batches, their order and their errors are the same with any number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    workers: usize,
    batches: usize,
    bytes: usize,
}

impl Prefetch {
    /// This many threads, and twice as many batches ahead. With 0 threads batches are made on
    /// demand.
    pub fn new(workers: usize) -> Self {
        Prefetch { workers, batches: workers.saturating_mul(2), bytes: usize::MAX }
    }
    /// At most this many batches are in progress or ready; 0 counts as 1.
    #[must_use]
    pub fn batches(mut self, batches: usize) -> Self {
        self.batches = batches.max(1);
        self
    }
    /// At most this many bytes of batches are in progress or ready. A batch in progress is assumed
    /// to be as large as the largest so far, and the batch that the consumer waits for is made even
    /// if it is larger.
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
    /// Number of threads.
    pub(crate) fn workers(self) -> usize {
        self.workers
    }
}

/// Makes batch `i`; polls the flag to stop early.
pub(crate) type Make<T> = Arc<dyn Fn(usize, &AtomicBool) -> Result<T> + Send + Sync>;

/// The prefetched batches of a range. The threads stop when it is dropped.
pub(crate) struct Ahead<T> {
    shared: Arc<Shared<T>>,
    workers: Vec<JoinHandle<()>>,
    /// A thread could not be started; returned instead of the first batch.
    failed: Option<Error>,
}

struct Shared<T> {
    make: Make<T>,
    size: fn(&T) -> usize,
    limits: Prefetch,
    end: usize,
    stop: AtomicBool,
    state: Mutex<PrefetchState<T>>,
    /// Signalled when a batch was taken, or on stop.
    room: Condvar,
    /// Signalled when a batch is ready.
    made: Condvar,
}

struct PrefetchState<T> {
    /// The batch that the consumer takes next.
    wanted: usize,
    /// The batch that a worker starts next.
    next: usize,
    ready: BTreeMap<usize, Result<T>>,
    /// Bytes in `ready`.
    held: usize,
    /// Bytes of the largest batch so far; `None` before there was one.
    largest: Option<usize>,
}

impl<T> PrefetchState<T> {
    /// May a worker start batch `next`?
    fn room(&self, limits: Prefetch) -> bool {
        let started = self.next - self.wanted;
        let making = started - self.ready.len();
        let fits =
            |largest: usize| largest.saturating_mul(making + 1).saturating_add(self.held) <= limits.bytes;
        let bytes = limits.bytes == usize::MAX || self.largest.is_some_and(fits);
        started == 0 || (started < limits.batches && bytes)
    }
}

impl<T: Send + 'static> Ahead<T> {
    pub(crate) fn start(range: Range<usize>, limits: Prefetch, make: Make<T>, size: fn(&T) -> usize) -> Self {
        let shared = Arc::new(Shared {
            make,
            size,
            limits,
            end: range.end,
            stop: AtomicBool::new(false),
            state: Mutex::new(PrefetchState {
                wanted: range.start,
                next: range.start,
                ready: BTreeMap::new(),
                held: 0,
                largest: None,
            }),
            room: Condvar::new(),
            made: Condvar::new(),
        });
        let mut ahead = Ahead { shared, workers: Vec::new(), failed: None };
        for i in 0..limits.workers.min(range.len()) {
            let shared = ahead.shared.clone();
            match thread::Builder::new().name(format!("elinvar-data-{i}")).spawn(move || shared.work()) {
                Ok(handle) => ahead.workers.push(handle),
                Err(e) => {
                    ahead.end();
                    ahead.failed = Some(Error::from(e).at("loader: a thread could not be started"));
                    break;
                }
            }
        }
        ahead
    }
}

impl<T> Shared<T> {
    /// No user code runs under the lock, so the state is consistent even if it is poisoned.
    fn lock(&self) -> MutexGuard<'_, PrefetchState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            while !self.stopped() && state.next < self.end && !state.room(self.limits) {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if self.stopped() || state.next >= self.end {
                return;
            }
            let i = state.next;
            state.next += 1;
            drop(state);
            let batch = guarded(|| (self.make)(i, &self.stop));
            let bytes = batch.as_ref().map_or(0, |b| (self.size)(b));
            state = self.lock();
            state.held = state.held.saturating_add(bytes);
            state.largest = state.largest.max(Some(bytes));
            state.ready.insert(i, batch);
            self.made.notify_all();
            // The new size may allow other workers to continue.
            self.room.notify_all();
        }
    }
}

impl<T> Iterator for Ahead<T> {
    type Item = Result<T>;
    fn next(&mut self) -> Option<Result<T>> {
        if self.workers.is_empty() {
            return self.failed.take().map(Err);
        }
        let mut state = self.shared.lock();
        let wanted = state.wanted;
        if wanted >= self.shared.end {
            return None;
        }
        loop {
            if let Some(batch) = state.ready.remove(&wanted) {
                let bytes = batch.as_ref().map_or(0, |b| (self.shared.size)(b));
                state.held = state.held.saturating_sub(bytes);
                state.wanted += 1;
                self.shared.room.notify_all();
                return Some(batch);
            }
            state = self.shared.made.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Ahead<T> {
    /// Stops the threads, at the latest after the sample that each of them is reading.
    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        {
            // Under the lock, so that no worker is between its check of `stop` and its wait.
            let _state = self.shared.lock();
            self.shared.room.notify_all();
        }
        for worker in self.workers.drain(..) {
            // Workers catch panics, so the result carries no information.
            let _ = worker.join();
        }
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs user code; a panic becomes an error with its message.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    // Unwind safe: the user code shares only an index and a flag with this module.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        Err(Error::argument(format!("data: reading a sample panicked: {}", message(&*panic))))
    })
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it left no message")
}
