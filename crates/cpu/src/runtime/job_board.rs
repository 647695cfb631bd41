//! A board on which one job at a time is posted: numbered tasks, for whoever looks.
//!
//! What threads tell each other costs a cache line that goes from one core to the other, 30 to 200 nanoseconds each; ten of
//! them were more than half of an op of three microseconds. So a job is one line that those who look out for work read, each
//! thread takes tasks from a line of its own until it has none left, and says on another of its own how many it did.
//!
//! How it can be wrong: a thread may see a job, stop, and go on when that job is long over. It never does a task of it then, nor
//! one that is not its own, because tasks are taken by changing a word that has the job's number in it.

use super::thread_pool::{held, look_out};
use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::num::NonZero;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*, fence};
use std::thread::{self, Thread};
use std::time::Duration;

/// Something on cache lines of its own; two, because processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// One job, and what became of it.
pub(crate) struct Board {
    post: Apart<Post>,
    /// For each thread the job that its lane was last used in, times 2^[`BITS`], plus how many tasks of the lane are taken.
    lanes: Box<[Apart<AtomicU64>]>,
    /// For each thread but the caller the job that it helped with last, times 2^[`BITS`], plus how many tasks it did. It has the line
    /// to itself before it is done, so that the caller waits for one line, and the thread for none.
    done: Box<[Apart<AtomicU64>]>,
    /// Does the caller sleep until they are done?
    parked: Apart<AtomicBool>,
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
    /// Tasks of the caller's own lane, if it is for the caller alone; or 0.
    own: AtomicUsize,
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
pub(crate) const MOST: usize = 1 << (BITS - 1);
/// How often the caller of small work looks whether others are done before he does their tasks: about two microseconds.
const PATIENCE: usize = 100;

/// A job that somebody saw.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    number: u64,
    tasks: usize,
    way: Way,
}

/// How the tasks of a job are given out.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// From the last one of each lane on.
    pub(crate) backwards: bool,
    /// There is so little to do that looking at another's lane, and fetching what its tasks read, takes as long: so many tasks are the
    /// caller's, nobody else does one of them, and he does others' only after waiting for them.
    pub(crate) own: Option<NonZero<usize>>,
}

// SAFETY: all fields but `f` are `Sync`, and `f` points to something that is `Sync`; when it may be read and followed is argued in
// `Board::post` and `Board::work_on`. It may be sent for the same reason.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Sync for Board {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Send for Board {}

impl Board {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Board {
        let lines = || (0..threads).map(|_| Apart::default()).collect();
        Board {
            post: Apart::default(),
            lanes: lines(),
            done: lines(),
            parked: Apart::default(),
            callers: Apart::default(),
        }
    }

    /// Calls `f` for each task, together with those who look, and returns when all have returned; `posted` is called in between.
    /// `None`: another's job stands here.
    ///
    /// # Errors
    /// What a task panicked with, after all others are done.
    pub(crate) fn run(
        &self,
        tasks: usize,
        way: Way,
        linger: Duration,
        f: &(dyn Fn(usize) + Sync),
        posted: impl FnOnce(),
    ) -> Option<Result<(), Box<dyn Any + Send>>> {
        let Callers { taken, panic, .. } = &self.callers.0;
        if taken.load(Relaxed) || taken.swap(true, Acquire) {
            return None;
        }
        let (seen, first) = self.post(tasks, way, f);
        posted();
        let mut mine = self.work_on(&seen, 0, first);
        if !self.are_soon_done(&seen, mine) {
            mine += self.work(&seen, 0);
            self.wait(&seen, mine, linger);
        }
        let panic = held(panic).take();
        taken.store(false, Release);
        Some(panic.map_or(Ok(()), Err))
    }

    /// Posts a job of which the caller has taken the first tasks, which are given back by number. Only who has set `taken` may.
    fn post(&self, tasks: usize, way: Way, f: &(dyn Fn(usize) + Sync)) -> (Seen, Range<usize>) {
        assert!(tasks <= MOST, "tasks have numbers");
        let post = &self.post.0;
        let number = post.job.load(Relaxed) + 2;
        post.job.store(number - 1, Relaxed);
        // Whoever sees something of what follows sees that the number is odd, if he looks again.
        fence(Release);
        // So this comes after it: who found the word of a later job, and not that its own is over, would take it for an older one.
        let first = way.own.map_or(1, NonZero::get);
        self.lanes[0].0.store(number << BITS | first as u64, Relaxed);
        post.tasks.store(tasks, Relaxed);
        post.backwards.store(way.backwards, Relaxed);
        post.own.store(way.own.map_or(0, NonZero::get), Relaxed);
        let f: *const (dyn Fn(usize) + Sync + '_) = f;
        // SAFETY: the types differ in a lifetime only, which pointers do not rely on; `work_on` argues when it is followed.
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
        (Seen { number, tasks, way }, 0..first)
    }

    /// Has another job been posted than number `seen`?
    #[inline]
    pub(crate) fn is_news(&self, seen: u64) -> bool {
        self.post.0.job.load(Relaxed) != seen
    }

    /// The job that stands here, or stood here last, if it is another than number `seen`, which becomes its number.
    pub(crate) fn look(&self, seen: &mut u64) -> Option<Seen> {
        let post = &self.post.0;
        let number = post.job.load(Acquire);
        if number == *seen || number % 2 == 1 {
            return None;
        }
        let tasks = post.tasks.load(Relaxed);
        let way = Way { backwards: post.backwards.load(Relaxed), own: NonZero::new(post.own.load(Relaxed)) };
        fence(Acquire);
        if post.job.load(Relaxed) != number {
            return None;
        }
        *seen = number;
        Some(Seen { number, tasks, way })
    }

    /// Takes a task from a lane of a job, or of small work all: by number in the lane. Empty: there is none.
    fn take(&self, seen: &Seen, lane: usize) -> Range<usize> {
        let word = &self.lanes[lane].0;
        let (start, end) = self.lane(seen, lane);
        let mut was = word.load(Acquire);
        loop {
            let next = if was >> BITS << BITS == seen.number << BITS {
                (was & ((1 << BITS) - 1)) as usize
            } else if self.is_news(seen.number) {
                // The job is over: whoever took a task of a later one, or posted it, wrote the word (Release) after that was to
                // be seen, and we have read it (Acquire).
                return 0..0;
            } else {
                // Nobody has been here.
                0
            };
            if next == end - start {
                return 0..0;
            }
            let then = if seen.way.own.is_some() { end - start } else { next + 1 };
            let word_then = seen.number << BITS | then as u64;
            match word.compare_exchange_weak(was, word_then, AcqRel, Acquire) {
                Ok(_) => return next..then,
                Err(now) => was = now,
            }
        }
    }

    fn lanes(&self, seen: &Seen) -> usize {
        self.lanes.len().min(seen.tasks)
    }
    /// The tasks of a lane.
    fn lane(&self, seen: &Seen, lane: usize) -> (usize, usize) {
        // The caller's tasks, and between how many lanes the others are shared.
        let (own, count) = match seen.way.own {
            Some(own) if lane == 0 => return (0, own.get()),
            Some(own) => (own.get(), self.lanes(seen) - 1),
            None => (0, self.lanes(seen)),
        };
        let lane = lane - usize::from(own > 0);
        let rest = seen.tasks - own;
        (own + rest * lane / count, own + rest * (lane + 1) / count)
    }

    /// Does tasks of others' jobs until all are taken, beginning with those of lane `me`.
    pub(crate) fn help(&self, seen: &Seen, me: usize) {
        let finished = self.work(seen, me);
        if finished == 0 {
            return;
        }
        // Release: whoever sees the count sees what the tasks wrote.
        self.done[me].0.store(seen.number << BITS | finished as u64, Release);
        // Either this sees that the caller sleeps, or he, who looks once more, sees the count.
        fence(SeqCst);
        if self.parked.0.load(Acquire) {
            // It may be another job's caller by now. He looks, and sleeps on.
            if let Some(thread) = held(&self.callers.0.sleeper).clone() {
                thread.unpark();
            }
        }
    }

    /// Does tasks of a lane until all are taken, first those that are the thread's own already; says how many.
    fn work_on(&self, seen: &Seen, lane: usize, mut taken: Range<usize>) -> usize {
        let (start, end) = self.lane(seen, lane);
        let mut finished = 0;
        loop {
            if taken.is_empty() {
                taken = self.take(seen, lane);
            }
            if taken.is_empty() {
                return finished;
            }
            // SAFETY: these tasks were taken by nobody else, as each number of a lane is given out once: its word goes from each
            // value to the next, and comes to no value of this job again. The job is not over: its caller waits until `done`
            // has counted these tasks, which is after all calls have returned, and only then returns, or posts another. (That the
            // word was found with the job's number or an older one, and changed from that, says so: in a job that is over,
            // all tasks of all lanes are taken.) So the pointer is this job's, which was written before its number was, and the
            // reference that it was made from, which the caller holds, is alive.
            #[allow(unsafe_code, reason = "the caller waits for these calls")]
            let f = unsafe { &*(*self.post.0.f.get()).expect("a job has been posted") };
            for n in std::mem::take(&mut taken) {
                let task = if seen.way.backwards { end - 1 - n } else { start + n };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(task))) {
                    held(&self.callers.0.panic).get_or_insert(panic);
                }
                finished += 1;
            }
        }
    }

    /// Does tasks until all are taken that may be, beginning with those of lane `me`; says how many.
    fn work(&self, seen: &Seen, me: usize) -> usize {
        let lanes = self.lanes(seen);
        let all = (0..lanes).map(|i| (me + i) % lanes).filter(|&lane| lane > 0 || seen.way.own.is_none());
        all.map(|lane| self.work_on(seen, lane, 0..0)).sum()
    }

    /// How many tasks others than the caller have done.
    fn done(&self, seen: &Seen) -> usize {
        let count = |word: &Apart<AtomicU64>| {
            // Acquire: what the tasks wrote is to be seen.
            let word = word.0.load(Acquire);
            if word >> BITS << BITS == seen.number << BITS { (word & ((1 << BITS) - 1)) as usize } else { 0 }
        };
        self.done[1..].iter().map(count).sum()
    }

    /// Of small work: are all tasks done within a moment, of which the caller did so many?
    fn are_soon_done(&self, seen: &Seen, mine: usize) -> bool {
        seen.way.own.is_some()
            && (0..PATIENCE).any(|_| {
                let done = mine + self.done(seen) == seen.tasks;
                if !done {
                    spin_loop();
                }
                done
            })
    }

    /// Returns when others have done all tasks but so many.
    fn wait(&self, seen: &Seen, mine: usize, linger: Duration) {
        let done = || mine + self.done(seen) == seen.tasks;
        if !look_out(linger, done) {
            *held(&self.callers.0.sleeper) = Some(thread::current());
            // Release: who sees it sees who sleeps.
            self.parked.0.store(true, Release);
            fence(SeqCst);
            while !done() {
                thread::park();
            }
            self.parked.0.store(false, Relaxed);
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
        let way = Way { backwards: false, own: None };
        board.run(4, way, Duration::ZERO, &f, || ()).expect("nobody else is here").expect("nothing panics");
        let late = board.look(&mut 0).expect("a job stood here");
        // The next job is about to be posted.
        let next = late.number + 2;
        board.post.0.job.store(next - 1, Relaxed);
        board.lanes[0].0.store(next << BITS | 1, Relaxed);
        for lane in 0..2 {
            assert_eq!(board.take(&late, lane), 0..0, "lane {lane}");
        }
        board.help(&late, 1);
        assert_eq!(done.into_inner(), 4);
        assert_eq!(board.lanes[0].0.load(Relaxed), next << BITS | 1, "and changes nothing");
    }
}
