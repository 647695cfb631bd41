//! The thread pool: worker threads that spin, then sleep, and a caller that works along with them.
//!
//! An op can take a microsecond, so handing out a part of it has to cost less. The caller starts on
//! its own share at once; a worker that has just finished polls for the next job for a moment
//! before it sleeps, because ops come in bursts. A waiting caller never runs other jobs, and waits
//! for at most the tasks in progress, so it may hold locks or be a thread of another pool.
//!
//! Tasks are numbered and each thread starts with its own range of numbers, so the next op over the
//! same range finds its data in the cache of the same core. Successive long jobs run their tasks in
//! opposite directions: of data larger than the cache, the end that was touched last is still
//! there.

use super::job_board::{CachePadded, JobBoard, MAX_TASKS, Schedule};
use super::plan::{JOB_BOARDS, MAX_THREADS, PARALLEL_MIN_NS, REVERSE_MIN_NS, SMALL_JOB_MAX_NS, WAKE_MIN_NS};
use super::wait::{lock, spin_until};
use elinvar_core::clock::Instant;
use elinvar_core::{Error, Result};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long it looks out before it sleeps; after a moment it lets others go first.
const PARK_AFTER: Duration = Duration::from_micros(200);

/// Threads that help those who call [`run`](ThreadPool::run). They end when this is dropped.
pub(crate) struct ThreadPool {
    shared: Arc<PoolShared>,
    /// With the caller.
    count: usize,
}

struct PoolShared {
    boards: [JobBoard; JOB_BOARDS],
    state: Mutex<WakeState>,
    condvar: Condvar,
    /// Threads that sleep and were not called. It is changed by those who hold `state`.
    asleep: AtomicUsize,
    closed: AtomicBool,
    /// How long to look out for work.
    park_after: Duration,
    born: Instant,
    /// On lines of its own: those who look out would have to wait for each other's.
    callers: CachePadded<PoolCallers>,
}

/// What callers change with each job.
#[derive(Default)]
struct PoolCallers {
    /// When small work was last offered to threads that all slept: nanoseconds since `born`.
    last: AtomicU64,
    /// Does the next long work go through its tasks from the last one on?
    backwards: AtomicBool,
}

#[derive(Default)]
struct WakeState {
    /// Calls that no sleeper has answered yet.
    wake_tokens: usize,
}

impl ThreadPool {
    /// `count - 1` threads beside the caller.
    ///
    /// # Errors
    /// `InvalidArgument` if they are more than [`MAX_THREADS`], or the system gives none.
    pub(crate) fn new(count: usize) -> Result<ThreadPool> {
        if count > MAX_THREADS {
            return Err(Error::argument(format!("cpu: {count} threads; at most {MAX_THREADS} would fit")));
        }
        // Threads without a processor of their own would look out at the cost of those who work.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(PoolShared {
            boards: std::array::from_fn(|_| JobBoard::new(count)),
            state: Mutex::default(),
            condvar: Condvar::new(),
            asleep: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            park_after: if count <= processors { PARK_AFTER } else { Duration::ZERO },
            born: Instant::now(),
            callers: CachePadded::default(),
        });
        let threads = ThreadPool { shared, count };
        for me in 1..count {
            let shared = threads.shared.clone();
            thread::Builder::new()
                .name(format!("elinvar-{me}"))
                .spawn(move || shared.worker_loop(me))
                .map_err(|e| Error::argument(format!("cpu: {count} threads: {e}")))?;
        }
        Ok(threads)
    }

    /// Calls `f(0)` to `f(tasks - 1)`, each once, in any order, on several threads if `ns`
    /// nanoseconds of work are worth it, and returns when all have returned.
    ///
    /// # Panics
    /// With what a task panicked with, after all others are done.
    pub(crate) fn run(&self, tasks: usize, ns: f64, f: &(dyn Fn(usize) + Sync)) {
        if tasks < 2 || ns < PARALLEL_MIN_NS || self.count < 2 || tasks > MAX_TASKS || !self.has_helpers(ns) {
            return (0..tasks).for_each(f);
        }
        let shared = &*self.shared;
        let backwards = ns >= REVERSE_MIN_NS && shared.callers.0.backwards.fetch_not(Relaxed);
        let posted = || {
            // Who falls asleep just now either sees the job or is seen to sleep. Small work does
            // not wait for that: a thread that is missed is there for the next.
            if ns >= WAKE_MIN_NS {
                fence(SeqCst);
            }
            // Each of those wakes another: no thread pays for all of them.
            shared.wake((tasks - 1).min(2));
        };
        // More for the caller, because the others begin late, took longer: what half of the numbers
        // take of a second-level cache leaves room, two thirds do not.
        let own = NonZero::new(tasks.div_ceil(self.count)).filter(|_| ns < SMALL_JOB_MAX_NS);
        let schedule = Schedule { backwards, own };
        let run = |board: &JobBoard| board.run(tasks, schedule, shared.park_after, f, posted);
        match shared.boards.iter().find_map(run) {
            Some(Ok(())) => {}
            Some(Err(panic)) => resume_unwind(panic),
            None => (0..tasks).for_each(f),
        }
    }

    /// Does anybody look out, or is the work long enough to wake them?
    fn has_helpers(&self, ns: f64) -> bool {
        let shared = &*self.shared;
        if ns >= WAKE_MIN_NS || shared.asleep.load(Relaxed) + 1 < self.count {
            return true;
        }
        // Small work that comes often wakes them.
        let now = shared.born.elapsed().as_nanos() as u64;
        now.saturating_sub(shared.callers.0.last.swap(now, Relaxed)) < shared.park_after.as_nanos() as u64
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let state = lock(&self.shared.state);
        self.shared.closed.store(true, Release);
        drop(state);
        self.shared.condvar.notify_all();
    }
}

impl PoolShared {
    /// Wakes up to `most` sleepers.
    fn wake(&self, most: usize) {
        if self.asleep.load(Relaxed) == 0 {
            return;
        }
        let mut state = lock(&self.state);
        let some = most.min(self.asleep.load(Relaxed));
        self.asleep.fetch_sub(some, Relaxed);
        state.wake_tokens += some;
        drop(state);
        (0..some).for_each(|_| self.condvar.notify_one());
    }

    /// What thread `me` does all its life.
    fn worker_loop(&self, me: usize) {
        let mut seen = [0; JOB_BOARDS];
        while !self.closed.load(Acquire) {
            let mut jobs = self.boards.iter().zip(&mut seen);
            if let Some((board, job)) = jobs.find_map(|(board, seen)| Some((board, board.new_ticket(seen)?)))
            {
                self.wake(1);
                board.help(&job, me);
                continue;
            }
            let is_new_job = || {
                self.boards.iter().zip(&seen).any(|(board, &seen)| board.is_new_job(seen))
                    || self.closed.load(Relaxed)
            };
            if spin_until(self.park_after, is_new_job) {
                continue;
            }
            let mut state = lock(&self.state);
            self.asleep.fetch_add(1, Relaxed);
            fence(SeqCst);
            if is_new_job() {
                self.asleep.fetch_sub(1, Relaxed);
                continue;
            }
            while state.wake_tokens == 0 && !self.closed.load(Relaxed) {
                state = self.condvar.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.wake_tokens = state.wake_tokens.saturating_sub(1);
        }
    }
}

/// The first element of what tasks change.
struct SendPtr<T>(*mut T);

// SAFETY: each task goes to elements of its own, which may be sent to its thread.
#[allow(unsafe_code, reason = "several threads change parts of one slice")]
unsafe impl<T: Send> Sync for SendPtr<T> {}

impl<T> SendPtr<T> {
    /// The field alone would be captured as a pointer, which is not `Sync`.
    fn first(&self) -> *mut T {
        self.0
    }
}

impl ThreadPool {
    /// Calls `f(i, part)` for each part of `piece` elements (the last may be shorter), as
    /// [`run`](ThreadPool::run) does.
    pub(crate) fn chunks<T: Send>(
        &self,
        all: &mut [T],
        piece: usize,
        ns: f64,
        f: &(dyn Fn(usize, &mut [T]) + Sync),
    ) {
        let (len, base) = (all.len(), SendPtr(all.as_mut_ptr()));
        self.run(len.div_ceil(piece), ns, &|i| {
            let start = i * piece;
            // SAFETY: `i < len.div_ceil(piece)`, so `start < len`, and the part ends at `len` at
            // most; `run` gives each `i` once, so parts do not overlap, and `all` is borrowed until
            // it returns.
            #[allow(unsafe_code, reason = "a part of its own for each task")]
            let part =
                unsafe { std::slice::from_raw_parts_mut(base.first().add(start), piece.min(len - start)) };
            f(i, part);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// More than any work that is not shared.
    const LONG_JOB_NS: f64 = 1e9;

    #[test]
    fn every_task_is_done_once() {
        for count in [1, 2, 3, 8] {
            let threads = ThreadPool::new(count).unwrap();
            for tasks in [0, 1, 2, 3, 7, 64, 1000] {
                for ns in [0.0, PARALLEL_MIN_NS, LONG_JOB_NS] {
                    let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                    threads.run(tasks, ns, &|i| {
                        done[i].fetch_add(1, Relaxed);
                    });
                    assert!(
                        done.iter().all(|d| d.load(Relaxed) == 1),
                        "{count} threads, {tasks} tasks, {ns} ns"
                    );
                }
            }
        }
    }

    #[test]
    fn threads_have_a_limit() {
        for count in [MAX_THREADS + 1, 100_000, usize::MAX] {
            assert!(ThreadPool::new(count).is_err(), "{count}");
        }
    }

    #[test]
    fn parts_are_all_of_it() {
        let threads = ThreadPool::new(3).unwrap();
        for (len, piece) in [(0, 1), (1, 5), (10, 3), (1000, 1), (1000, 64)] {
            let mut all = vec![0usize; len];
            threads.chunks(&mut all, piece, LONG_JOB_NS, &|i, part| {
                part.iter_mut().enumerate().for_each(|(k, x)| *x += i * piece + k + 1);
            });
            assert!(all.iter().enumerate().all(|(i, &x)| x == i + 1), "{len} by {piece}");
        }
    }

    #[test]
    fn tasks_may_have_tasks() {
        let (threads, sum) = (ThreadPool::new(3).unwrap(), AtomicUsize::new(0));
        threads.run(10, LONG_JOB_NS, &|i| {
            threads.run(10, LONG_JOB_NS, &|k| {
                sum.fetch_add(i * 10 + k, Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), (0..100).sum());
    }

    #[test]
    fn several_callers_at_once() {
        let (threads, sum) = (ThreadPool::new(3).unwrap(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        threads.run(5, LONG_JOB_NS, &|i| {
                            sum.fetch_add(i, Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 4 * 500 * 10);
    }

    #[test]
    fn jobs_follow_each_other_closely() {
        // As many callers as find no board, jobs of few tasks and of many, in both directions: a
        // thread that comes late to one finds another in its place.
        let threads = ThreadPool::new(4).unwrap();
        thread::scope(|scope| {
            for caller in 0..JOB_BOARDS + 2 {
                let threads = &threads;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let tasks = 2 + (round * 7 + caller) % 11;
                        let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                        let ns = if round % 3 == 0 { REVERSE_MIN_NS } else { PARALLEL_MIN_NS };
                        threads.run(tasks, ns, &|i| {
                            done[i].fetch_add(1, Relaxed);
                        });
                        assert!(done.iter().all(|d| d.load(Relaxed) == 1), "{caller}, {round}");
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_alone() {
        let threads = ThreadPool::new(2).unwrap();
        let done = AtomicUsize::new(0);
        let all = catch_unwind(AssertUnwindSafe(|| {
            threads.run(20, LONG_JOB_NS, &|i| {
                done.fetch_add(1, Relaxed);
                assert!(i != 3, "task three");
            });
        }));
        assert_eq!(all.unwrap_err().downcast_ref::<&str>(), Some(&"task three"));
        assert_eq!(done.load(Relaxed), 20, "the others are done");
        threads.run(20, LONG_JOB_NS, &|_| {
            done.fetch_add(1, Relaxed);
        });
        assert_eq!(done.into_inner(), 40);
    }

    #[test]
    fn they_sleep_and_wake_up() {
        let (threads, done) = (ThreadPool::new(2).unwrap(), AtomicUsize::new(0));
        for _ in 0..5 {
            thread::sleep(2 * PARK_AFTER);
            threads.run(2, LONG_JOB_NS, &|_| {
                done.fetch_add(1, Relaxed);
            });
        }
        assert_eq!(done.into_inner(), 10);
    }
}
