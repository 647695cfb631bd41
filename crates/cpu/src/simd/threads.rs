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

use elinvar_core::{Error, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Nanoseconds of work from which it is shared: several times what it takes a thread that looks out to begin (about 0.3
/// microseconds) and to be waited for.
pub(crate) const WORTH: f64 = 3_000.0;
/// Nanoseconds of work for which sleeping threads are woken, which takes them ten microseconds and more.
const WORTH_WAKING: f64 = 40_000.0;
/// Nanoseconds of work from which the next of the same kind goes in the other direction. Less is in the cache anyway, and
/// would turn the direction without having used it.
const WORTH_TURNING: f64 = 50_000.0;
/// How long a thread without work keeps the processor to itself.
const SPIN: Duration = Duration::from_micros(30);
/// How long it looks out before it sleeps; after [`SPIN`] it lets others go first.
const LINGER: Duration = Duration::from_micros(200);
/// Looks between two looks at the clock.
const LOOKS: usize = 32;

/// Threads that help those who call [`run`](Threads::run). They end when this is dropped.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// With the caller.
    count: usize,
}

struct Shared {
    state: Mutex<State>,
    bell: Condvar,
    /// Raised with every job: what threads without work look at.
    posted: AtomicUsize,
    /// When work was last offered: nanoseconds since `born`.
    last: AtomicU64,
    born: Instant,
    /// Does the next long work go through its tasks from the last one on?
    backwards: AtomicBool,
    /// How long to look out for work.
    linger: Duration,
}

#[derive(Default)]
struct State {
    jobs: Vec<Arc<Job>>,
    /// Threads that sleep and were not called.
    asleep: usize,
    /// Calls that no sleeper has answered yet.
    rung: usize,
    closed: bool,
}

/// Tasks of one call.
struct Job {
    /// What the caller of [`Threads::run`] gave. It lives until all tasks are done, and no longer.
    f: *const (dyn Fn(usize) + Sync),
    tasks: usize,
    /// Does each lane give out its last task first?
    backwards: bool,
    done: AtomicUsize,
    /// The tasks, in one range for each thread.
    lanes: Box<[Lane]>,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Numbers of tasks. Each lane has cache lines of its own.
#[repr(align(128))]
struct Lane {
    start: usize,
    next: AtomicUsize,
    end: usize,
}

// SAFETY: all fields but `f` are `Send` and `Sync`, and `f` points to something that is `Sync`; when it may be followed is
// argued in `Job::work`.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Send for Job {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Sync for Job {}

fn held<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
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
            state: Mutex::default(),
            bell: Condvar::new(),
            posted: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            born: Instant::now(),
            backwards: AtomicBool::new(false),
            linger: if count <= processors { LINGER } else { Duration::ZERO },
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
        if tasks < 2 || ns < WORTH || self.count < 2 {
            return (0..tasks).for_each(f);
        }
        let Some(job) = self.offer(tasks, ns, f) else { return (0..tasks).for_each(f) };
        job.work(0);
        held(&self.shared.state).jobs.retain(|j| !Arc::ptr_eq(j, &job));
        job.wait(self.shared.linger);
        if let Some(panic) = held(&job.panic).take() {
            resume_unwind(panic);
        }
    }

    /// A job that others may see from now on; none if all of them sleep and it is too small to wake them.
    fn offer(&self, tasks: usize, ns: f64, f: &(dyn Fn(usize) + Sync)) -> Option<Arc<Job>> {
        let shared = &*self.shared;
        let now = shared.born.elapsed().as_nanos() as u64;
        // Small work that comes often keeps threads awake.
        let often = now.saturating_sub(shared.last.swap(now, Relaxed)) < shared.linger.as_nanos() as u64;
        let mut state = held(&shared.state);
        if state.asleep + 1 == self.count && ns < WORTH_WAKING && !often {
            return None;
        }
        let backwards = ns >= WORTH_TURNING && shared.backwards.fetch_not(Relaxed);
        let job = Arc::new(Job::new(f, tasks, self.count, backwards));
        state.jobs.push(job.clone());
        shared.posted.fetch_add(1, Release);
        // Each of those wakes another: nobody pays for all of them.
        let some = state.ring((tasks - 1).min(2));
        drop(state);
        (0..some).for_each(|_| shared.bell.notify_one());
        Some(job)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        held(&self.shared.state).closed = true;
        self.shared.posted.fetch_add(1, Release);
        self.shared.bell.notify_all();
    }
}

impl State {
    /// Calls up to `most` sleepers, and says how many bells to ring.
    fn ring(&mut self, most: usize) -> usize {
        let some = most.min(self.asleep);
        self.asleep -= some;
        self.rung += some;
        some
    }
}

impl Shared {
    /// What thread `me` does all its life.
    fn serve(&self, me: usize) {
        loop {
            let mut state = held(&self.state);
            if state.closed {
                return;
            }
            let seen = self.posted.load(Acquire);
            if let Some(job) = state.jobs.iter().find(|job| job.is_open()).cloned() {
                let some = state.ring(1);
                drop(state);
                (0..some).for_each(|_| self.bell.notify_one());
                job.work(me);
                continue;
            }
            drop(state);
            if look_out(self.linger, || self.posted.load(Acquire) != seen) {
                continue;
            }
            let mut state = held(&self.state);
            // What was posted while nobody looked is found by the next turn.
            if self.posted.load(Acquire) == seen {
                state.asleep += 1;
                while state.rung == 0 && !state.closed {
                    state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                state.rung = state.rung.saturating_sub(1);
            }
        }
    }
}

/// Looks for `long` whether `done`, first alone on its processor, then behind all others.
fn look_out(long: Duration, done: impl Fn() -> bool) -> bool {
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

impl Job {
    fn new(f: &(dyn Fn(usize) + Sync), tasks: usize, threads: usize, backwards: bool) -> Job {
        let count = threads.min(tasks);
        let lane = |i: usize| {
            let start = tasks * i / count;
            Lane { start, next: AtomicUsize::new(start), end: tasks * (i + 1) / count }
        };
        let lanes = (0..count).map(lane).collect();
        let f: *const (dyn Fn(usize) + Sync + '_) = f;
        // SAFETY: the types differ in a lifetime only, which pointers do not rely on; `work` argues when it is followed.
        #[allow(unsafe_code, reason = "a pointer that outlives what it points to, and is not followed then")]
        let f: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(f) };
        let (done, caller) = (AtomicUsize::new(0), thread::current());
        Job { f, tasks, backwards, done, lanes, caller, panic: Mutex::new(None) }
    }

    /// Whether there are tasks that nobody has taken.
    fn is_open(&self) -> bool {
        self.lanes.iter().any(|lane| lane.next.load(Relaxed) < lane.end)
    }

    /// Does tasks until all are taken, beginning with those of lane `me`: 0 is the caller.
    fn work(&self, me: usize) {
        for i in 0..self.lanes.len() {
            let lane = &self.lanes[(me + i) % self.lanes.len()];
            let mut finished = 0;
            loop {
                let task = lane.next.fetch_add(1, Relaxed);
                if task >= lane.end {
                    break;
                }
                let task = if self.backwards { lane.start + (lane.end - 1 - task) } else { task };
                // SAFETY: this task was taken by nobody else, as `next` gives each number once (and each is another one
                // backwards), and is not counted in
                // `done` before its call has returned. `Threads::run`, which holds the reference that `f` was made from,
                // returns only when `done` has counted all tasks, so the reference is alive.
                #[allow(unsafe_code, reason = "the caller waits for this call")]
                let f = unsafe { &*self.f };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(task))) {
                    held(&self.panic).get_or_insert(panic);
                }
                finished += 1;
            }
            // Release: whoever sees the count sees what the tasks wrote.
            if finished > 0 && self.done.fetch_add(finished, Release) + finished == self.tasks && me != 0 {
                self.caller.unpark();
            }
        }
    }

    /// Returns when all tasks are done.
    fn wait(&self, linger: Duration) {
        let done = || self.done.load(Acquire) == self.tasks;
        if !look_out(linger, done) {
            while !done() {
                thread::park();
            }
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
