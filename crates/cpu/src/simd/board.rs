//! A board on which one job at a time is posted: numbered tasks, for whoever looks.
//!
//! What threads tell each other costs a cache line that goes from one core to the other, 30 to 200 nanoseconds each; ten of
//! them were more than half of an op of three microseconds. So a job is one line that those who look out for work read, each
//! thread takes tasks from a line of its own until it has none left, and there is one line on which others count what they did.
//!
//! How it can be wrong: a thread may see a job, stop, and go on when that job is long over. It never does a task of it then, nor
//! one that is not its own, because tasks are taken by changing a word that has the job's number in it.

use super::threads::{held, look_out};
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Something on cache lines of its own; two, because processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

/// One job, and what became of it.
pub(super) struct Board {
    post: Apart<Post>,
    /// For each thread the job that its lane was last used in, times 2^[`BITS`], plus how many tasks of the lane are taken.
    lanes: Box<[Apart<AtomicU64>]>,
    /// How many tasks others than the caller have done, and [`PARKED`].
    done: Apart<AtomicUsize>,
    callers: Apart<Callers>,
}

/// What others read of a job.
#[derive(Default)]
struct Post {
    /// The number of the job; odd while what follows is being changed.
    job: AtomicU64,
    tasks: AtomicUsize,
    /// Does each lane give out its last task first?
    backwards: AtomicBool,
    /// What the caller of `run` gave. It lives until all tasks are done, and no longer.
    f: UnsafeCell<Option<*const (dyn Fn(usize) + Sync)>>,
}

/// What callers need beside.
#[derive(Default)]
struct Callers {
    /// Does somebody's job stand here?
    taken: AtomicBool,
    /// Who sleeps until it is done.
    sleeper: Mutex<Option<Thread>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Bits for tasks of a lane. The others number the jobs of a month, one each two microseconds: so long a thread would have to
/// stop between looking at a job and taking a task to mistake one for another.
const BITS: u32 = 22;
/// Tasks that a job has at most.
pub(super) const MOST: usize = 1 << (BITS - 1);
/// In `done`: the caller sleeps.
const PARKED: usize = 1 << (usize::BITS - 1);

/// A job that somebody saw.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    number: u64,
    tasks: usize,
    backwards: bool,
}

// SAFETY: all fields but `f` are `Sync`, and `f` points to something that is `Sync`; when it may be read and followed is argued in
// `Board::post` and `Board::work`. It may be sent for the same reason.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Sync for Board {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Send for Board {}

impl Board {
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Board {
        let lanes = (0..threads).map(|_| Apart::default()).collect();
        Board { post: Apart::default(), lanes, done: Apart::default(), callers: Apart::default() }
    }

    /// Calls `f` for each task, together with those who look, and returns when all have returned; `posted` is called in between.
    /// `None`: another's job stands here.
    ///
    /// # Errors
    /// What a task panicked with, after all others are done.
    pub(super) fn run(
        &self,
        tasks: usize,
        backwards: bool,
        linger: Duration,
        f: &(dyn Fn(usize) + Sync),
        posted: impl FnOnce(),
    ) -> Option<Result<(), Box<dyn Any + Send>>> {
        let Callers { taken, panic, .. } = &self.callers.0;
        if taken.load(Relaxed) || taken.swap(true, Acquire) {
            return None;
        }
        let seen = self.post(tasks, backwards, f);
        posted();
        let mine = self.work(&seen, 0, true);
        self.wait(tasks - mine, linger);
        let panic = held(panic).take();
        taken.store(false, Release);
        Some(panic.map_or(Ok(()), Err))
    }

    /// Posts a job of which the caller has taken the first task. Only who has set `taken` may.
    fn post(&self, tasks: usize, backwards: bool, f: &(dyn Fn(usize) + Sync)) -> Seen {
        assert!(tasks <= MOST, "tasks have numbers");
        let post = &self.post.0;
        let number = post.job.load(Relaxed) + 2;
        self.done.0.store(0, Relaxed);
        post.job.store(number - 1, Relaxed);
        // Whoever sees something of what follows sees that the number is odd, if he looks again.
        fence(Release);
        // So this comes after it: who found the word of a later job, and not that its own is over, would take it for an older one.
        self.lanes[0].0.store(number << BITS | 1, Relaxed);
        post.tasks.store(tasks, Relaxed);
        post.backwards.store(backwards, Relaxed);
        let f: *const (dyn Fn(usize) + Sync + '_) = f;
        // SAFETY: the types differ in a lifetime only, which pointers do not rely on; `work` argues when it is followed.
        #[allow(unsafe_code, reason = "a pointer that outlives what it points to, and is not followed then")]
        let f: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(f) };
        // SAFETY: nobody else writes it, as the caller has set `taken`; and who reads it holds a task of the job before, which
        // its caller has waited for (`wait`, Acquire after the reader's Release).
        #[allow(unsafe_code, reason = "a pointer that others read between two jobs of callers")]
        unsafe {
            *post.f.get() = Some(f);
        }
        // Release: whoever sees the number sees the job.
        post.job.store(number, Release);
        Seen { number, tasks, backwards }
    }

    /// Has another job been posted than number `seen`?
    #[inline]
    pub(super) fn is_news(&self, seen: u64) -> bool {
        self.post.0.job.load(Relaxed) != seen
    }

    /// The job that stands here, or stood here last, if it is another than number `seen`, which becomes its number.
    pub(super) fn look(&self, seen: &mut u64) -> Option<Seen> {
        let post = &self.post.0;
        let number = post.job.load(Acquire);
        if number == *seen || number % 2 == 1 {
            return None;
        }
        let (tasks, backwards) = (post.tasks.load(Relaxed), post.backwards.load(Relaxed));
        fence(Acquire);
        if post.job.load(Relaxed) != number {
            return None;
        }
        *seen = number;
        Some(Seen { number, tasks, backwards })
    }

    /// Takes a task from a lane of a job, if there is one.
    fn take(&self, seen: &Seen, lane: usize) -> Option<usize> {
        let word = &self.lanes[lane].0;
        let (start, end) = self.lane(seen, lane);
        let mut was = word.load(Acquire);
        loop {
            let next = if was >> BITS << BITS == seen.number << BITS {
                (was & ((1 << BITS) - 1)) as usize
            } else if self.is_news(seen.number) {
                // The job is over: whoever took a task of a later one, or posted it, wrote the word (Release) after that was to
                // be seen, and we have read it (Acquire).
                return None;
            } else {
                // Nobody has been here.
                0
            };
            if next == end - start {
                return None;
            }
            let then = seen.number << BITS | (next + 1) as u64;
            match word.compare_exchange_weak(was, then, AcqRel, Acquire) {
                Ok(_) => return Some(next),
                Err(now) => was = now,
            }
        }
    }

    fn lanes(&self, seen: &Seen) -> usize {
        self.lanes.len().min(seen.tasks)
    }
    /// The tasks of a lane.
    fn lane(&self, seen: &Seen, lane: usize) -> (usize, usize) {
        let count = self.lanes(seen);
        (seen.tasks * lane / count, seen.tasks * (lane + 1) / count)
    }

    /// Does tasks of others' jobs until all are taken, beginning with those of lane `me`.
    pub(super) fn help(&self, seen: &Seen, me: usize) {
        let finished = self.work(seen, me, false);
        // Release: whoever sees the count sees what the tasks wrote.
        if finished > 0 && self.done.0.fetch_add(finished, AcqRel) & PARKED != 0 {
            // Another job's caller may sleep here by now. He looks, and sleeps on.
            if let Some(thread) = held(&self.callers.0.sleeper).clone() {
                thread.unpark();
            }
        }
    }

    /// Does tasks until all are taken, beginning with those of lane `me`, whose first is taken already or not; says how many.
    fn work(&self, seen: &Seen, me: usize, mut has_first: bool) -> usize {
        let (lanes, mut finished) = (self.lanes(seen), 0);
        for i in 0..lanes {
            let lane = (me + i) % lanes;
            let (start, end) = self.lane(seen, lane);
            loop {
                let taken = if has_first { Some(0) } else { self.take(seen, lane) };
                has_first = false;
                let Some(n) = taken else { break };
                let task = if seen.backwards { end - 1 - n } else { start + n };
                // SAFETY: this task was taken by nobody else, as each number of a lane is given out once: its word goes from each
                // value to the next, and comes to no value of this job again. The job is not over: its caller waits until `done`
                // has counted this task, which is after its call has returned, and only then returns, or posts another. (That the
                // word was found with the job's number or an older one, and changed from that, says so: in a job that is over,
                // all tasks of all lanes are taken.) So the pointer is this job's, which was written before its number was, and the
                // reference that it was made from, which the caller holds, is alive.
                #[allow(unsafe_code, reason = "the caller waits for this call")]
                let f = unsafe { &*(*self.post.0.f.get()).expect("a job has been posted") };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(task))) {
                    held(&self.callers.0.panic).get_or_insert(panic);
                }
                finished += 1;
            }
        }
        finished
    }

    /// Returns when others have done so many tasks.
    fn wait(&self, tasks: usize, linger: Duration) {
        let done = || self.done.0.load(Acquire) & !PARKED == tasks;
        if !look_out(linger, done) {
            *held(&self.callers.0.sleeper) = Some(thread::current());
            self.done.0.fetch_or(PARKED, AcqRel);
            while !done() {
                thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_takes_nothing() {
        let board = Board::new(2);
        let done = AtomicUsize::new(0);
        let f = |_: usize| _ = done.fetch_add(1, Relaxed);
        board.run(4, false, Duration::ZERO, &f, || ()).expect("nobody else is here").expect("nothing panics");
        let late = board.look(&mut 0).expect("a job stood here");
        // The next job is about to be posted.
        let next = late.number + 2;
        board.post.0.job.store(next - 1, Relaxed);
        board.lanes[0].0.store(next << BITS | 1, Relaxed);
        for lane in 0..2 {
            assert_eq!(board.take(&late, lane), None, "lane {lane}");
        }
        board.help(&late, 1);
        assert_eq!(done.into_inner(), 4);
        assert_eq!(board.lanes[0].0.load(Relaxed), next << BITS | 1, "and changes nothing");
    }
}
