//! Threads that wait for work, and the caller that works with them.
//!
//! An op takes from a microsecond on, so handing a part of it over has to cost less. The caller takes its own share at once
//! instead of waiting for others; a thread that has just worked looks out for more for a moment before it sleeps, because
//! ops come in bunches. Nobody who waits takes up other work in the meantime: a caller waits for at most the task that a
//! thread is in the middle of, so it may hold locks, or be a thread of somebody else's pool.
//!
//! Tasks are numbered, and each thread begins with its own range of numbers: the next op over the same numbers finds them
//! in the cache of the same core. It goes through them in the other direction: what fits no cache as a whole was last
//! touched at that end.

use super::job_board::{Apart, Board, MOST, Way};
use elinvar_core::{Error, Result};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds of work from which it is shared: several times what it takes a thread that looks out to begin (about 0.3
/// microseconds) and to be waited for.
pub(crate) const WORTH: f64 = 3_000.0;
/// Nanoseconds of work for which sleeping threads are woken, which takes them ten microseconds and more.
const WORTH_WAKING: f64 = 40_000.0;
/// Nanoseconds of work from which the next of the same kind goes in the other direction. Less is in the cache anyway, and
/// would turn the direction without having used it.
const WORTH_TURNING: f64 = 50_000.0;
/// Nanoseconds of work up to which nobody looks at the caller's tasks.
pub(crate) const SMALL: f64 = 20_000.0;
/// How long a thread without work keeps the processor to itself.
const SPIN: Duration = Duration::from_micros(30);
/// How long it looks out before it sleeps; after [`SPIN`] it lets others go first.
const LINGER: Duration = Duration::from_micros(200);
/// Looks between two looks at the clock.
const LOOKS: usize = 32;

/// Callers that are helped at once. The next one does its work alone.
const BOARDS: usize = 4;

/// Threads that help those who call [`run`](Threads::run). They end when this is dropped.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// With the caller.
    count: usize,
}

struct Shared {
    boards: [Board; BOARDS],
    state: Mutex<State>,
    bell: Condvar,
    /// Threads that sleep and were not called. It is changed by those who hold `state`.
    asleep: AtomicUsize,
    closed: AtomicBool,
    /// How long to look out for work.
    linger: Duration,
    born: Instant,
    /// On lines of its own: those who look out would have to wait for each other's.
    callers: Apart<Callers>,
}

/// What callers change with each job.
#[derive(Default)]
struct Callers {
    /// When small work was last offered to threads that all slept: nanoseconds since `born`.
    last: AtomicU64,
    /// Does the next long work go through its tasks from the last one on?
    backwards: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Calls that no sleeper has answered yet.
    rung: usize,
}

pub(crate) fn held<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// `count - 1` threads beside the caller.
    ///
    /// # Errors
    /// `InvalidArgument` if the system gives none.
    pub(crate) fn new(count: usize) -> Result<Threads> {
        // Threads without a processor of their own would look out at the cost of those who work.
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            boards: std::array::from_fn(|_| Board::new(count)),
            state: Mutex::default(),
            bell: Condvar::new(),
            asleep: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            linger: if count <= processors { LINGER } else { Duration::ZERO },
            born: Instant::now(),
            callers: Apart::default(),
        });
        let threads = Threads { shared, count };
        for me in 1..count {
            let shared = threads.shared.clone();
            thread::Builder::new()
                .name(format!("elinvar-{me}"))
                .spawn(move || shared.serve(me))
                .map_err(|e| Error::argument(format!("cpu: {count} threads: {e}")))?;
        }
        Ok(threads)
    }

    /// Calls `f(0)` to `f(tasks - 1)`, each once, in any order, on several threads if `ns` nanoseconds of work are worth
    /// it, and returns when all have returned.
    ///
    /// # Panics
    /// With what a task panicked with, after all others are done.
    pub(crate) fn run(&self, tasks: usize, ns: f64, f: &(dyn Fn(usize) + Sync)) {
        if tasks < 2 || ns < WORTH || self.count < 2 || tasks > MOST || !self.is_heard(ns) {
            return (0..tasks).for_each(f);
        }
        let shared = &*self.shared;
        let backwards = ns >= WORTH_TURNING && shared.callers.0.backwards.fetch_not(Relaxed);
        let posted = || {
            // Who falls asleep just now either sees the job or is seen to sleep. Small work does not wait for that: whoever
            // is missed is there for the next.
            if ns >= WORTH_WAKING {
                fence(SeqCst);
            }
            // Each of those wakes another: nobody pays for all of them.
            shared.call((tasks - 1).min(2));
        };
        // More for the caller, because the others begin late, took longer: what half of the numbers take of a second-level cache leaves
        // room, two thirds do not.
        let own = NonZero::new(tasks.div_ceil(self.count)).filter(|_| ns < SMALL);
        let way = Way { backwards, own };
        let run = |board: &Board| board.run(tasks, way, shared.linger, f, posted);
        match shared.boards.iter().find_map(run) {
            Some(Ok(())) => {}
            Some(Err(panic)) => resume_unwind(panic),
            None => (0..tasks).for_each(f),
        }
    }

    /// Does anybody look out, or is the work long enough to wake them?
    fn is_heard(&self, ns: f64) -> bool {
        let shared = &*self.shared;
        if ns >= WORTH_WAKING || shared.asleep.load(Relaxed) + 1 < self.count {
            return true;
        }
        // Small work that comes often wakes them.
        let now = shared.born.elapsed().as_nanos() as u64;
        now.saturating_sub(shared.callers.0.last.swap(now, Relaxed)) < shared.linger.as_nanos() as u64
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let state = held(&self.shared.state);
        self.shared.closed.store(true, Release);
        drop(state);
        self.shared.bell.notify_all();
    }
}

impl Shared {
    /// Wakes up to `most` sleepers.
    fn call(&self, most: usize) {
        if self.asleep.load(Relaxed) == 0 {
            return;
        }
        let mut state = held(&self.state);
        let some = most.min(self.asleep.load(Relaxed));
        self.asleep.fetch_sub(some, Relaxed);
        state.rung += some;
        drop(state);
        (0..some).for_each(|_| self.bell.notify_one());
    }

    /// What thread `me` does all its life.
    fn serve(&self, me: usize) {
        let mut seen = [0; BOARDS];
        while !self.closed.load(Acquire) {
            let mut jobs = self.boards.iter().zip(&mut seen);
            if let Some((board, job)) = jobs.find_map(|(board, seen)| Some((board, board.look(seen)?))) {
                self.call(1);
                board.help(&job, me);
                continue;
            }
            let is_news = || {
                self.boards.iter().zip(&seen).any(|(board, &seen)| board.is_news(seen))
                    || self.closed.load(Relaxed)
            };
            if look_out(self.linger, is_news) {
                continue;
            }
            let mut state = held(&self.state);
            self.asleep.fetch_add(1, Relaxed);
            fence(SeqCst);
            if is_news() {
                self.asleep.fetch_sub(1, Relaxed);
                continue;
            }
            while state.rung == 0 && !self.closed.load(Relaxed) {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.rung = state.rung.saturating_sub(1);
        }
    }
}

/// Looks for `long` whether `done`, first alone on its processor, then behind all others.
pub(crate) fn look_out(long: Duration, done: impl Fn() -> bool) -> bool {
    if done() {
        return true;
    }
    let clock = Instant::now();
    let mut waited = Duration::ZERO;
    loop {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
            if waited < SPIN { std::hint::spin_loop() } else { thread::yield_now() }
        }
        waited = clock.elapsed();
        if waited >= long {
            return done();
        }
    }
}

/// The first element of what tasks change.
struct Base<T>(*mut T);

// SAFETY: each task goes to elements of its own, which may be sent to its thread.
#[allow(unsafe_code, reason = "several threads change parts of one slice")]
unsafe impl<T: Send> Sync for Base<T> {}

impl<T> Base<T> {
    /// The field alone would be captured as a pointer, which is not `Sync`.
    fn first(&self) -> *mut T {
        self.0
    }
}

impl Threads {
    /// Calls `f(i, part)` for each part of `piece` elements (the last may be shorter), as [`run`](Threads::run) does.
    pub(crate) fn chunks<T: Send>(
        &self,
        all: &mut [T],
        piece: usize,
        ns: f64,
        f: &(dyn Fn(usize, &mut [T]) + Sync),
    ) {
        let (len, base) = (all.len(), Base(all.as_mut_ptr()));
        self.run(len.div_ceil(piece), ns, &|i| {
            let start = i * piece;
            // SAFETY: `i < len.div_ceil(piece)`, so `start < len`, and the part ends at `len` at most; `run` gives each `i`
            // once, so parts do not overlap, and `all` is borrowed until it returns.
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
    const LONG: f64 = 1e9;

    #[test]
    fn every_task_is_done_once() {
        for count in [1, 2, 3, 8] {
            let threads = Threads::new(count).unwrap();
            for tasks in [0, 1, 2, 3, 7, 64, 1000] {
                for ns in [0.0, WORTH, LONG] {
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
    fn parts_are_all_of_it() {
        let threads = Threads::new(3).unwrap();
        for (len, piece) in [(0, 1), (1, 5), (10, 3), (1000, 1), (1000, 64)] {
            let mut all = vec![0usize; len];
            threads.chunks(&mut all, piece, LONG, &|i, part| {
                part.iter_mut().enumerate().for_each(|(k, x)| *x += i * piece + k + 1);
            });
            assert!(all.iter().enumerate().all(|(i, &x)| x == i + 1), "{len} by {piece}");
        }
    }

    #[test]
    fn tasks_may_have_tasks() {
        let (threads, sum) = (Threads::new(3).unwrap(), AtomicUsize::new(0));
        threads.run(10, LONG, &|i| {
            threads.run(10, LONG, &|k| {
                sum.fetch_add(i * 10 + k, Relaxed);
            });
        });
        assert_eq!(sum.into_inner(), (0..100).sum());
    }

    #[test]
    fn several_callers_at_once() {
        let (threads, sum) = (Threads::new(3).unwrap(), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        threads.run(5, LONG, &|i| {
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
        // As many callers as find no board, jobs of few tasks and of many, in both directions: a thread that comes late to one
        // finds another in its place.
        let threads = Threads::new(4).unwrap();
        thread::scope(|scope| {
            for caller in 0..BOARDS + 2 {
                let threads = &threads;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let tasks = 2 + (round * 7 + caller) % 11;
                        let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                        let ns = if round % 3 == 0 { WORTH_TURNING } else { WORTH };
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
    fn a_panic_reaches_the_caller_and_nobody_else() {
        let threads = Threads::new(2).unwrap();
        let done = AtomicUsize::new(0);
        let all = catch_unwind(AssertUnwindSafe(|| {
            threads.run(20, LONG, &|i| {
                done.fetch_add(1, Relaxed);
                assert!(i != 3, "task three");
            });
        }));
        assert_eq!(all.unwrap_err().downcast_ref::<&str>(), Some(&"task three"));
        assert_eq!(done.load(Relaxed), 20, "the others are done");
        threads.run(20, LONG, &|_| {
            done.fetch_add(1, Relaxed);
        });
        assert_eq!(done.into_inner(), 40);
    }

    #[test]
    fn they_sleep_and_wake_up() {
        let (threads, done) = (Threads::new(2).unwrap(), AtomicUsize::new(0));
        for _ in 0..5 {
            thread::sleep(2 * LINGER);
            threads.run(2, LONG, &|_| {
                done.fetch_add(1, Relaxed);
            });
        }
        assert_eq!(done.into_inner(), 10);
    }
}
