//! The job board: one parallel job of numbered tasks at a time, posted for the polling workers.
//!
//! Communication between cores costs cache-line transfers. So a job is one line that pollers read,
//! each thread claims tasks from a counter on a line of its own (then from those of others), and
//! reports how many it finished on another line of its own.
//!
//! How it can be wrong: a thread may read a job, be preempted, and go on when that job is over. It
//! never runs a task then, because tasks are claimed by compare-and-swap on a word that contains
//! the job's number.

use super::plan::CALLER_POLLS;
use super::wait::{lock, spin_until};
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
pub(crate) struct CachePadded<T>(pub(crate) T);

/// One job, and what became of it.
pub(crate) struct JobBoard {
    post: CachePadded<JobHeader>,
    /// For each thread the job that its lane was last used in, times 2^[`TASK_BITS`], plus how many
    /// tasks of the lane are taken.
    lanes: Box<[CachePadded<AtomicU64>]>,
    /// For each thread but the caller the job that it helped with last, times 2^[`TASK_BITS`], plus
    /// how many tasks it did. It has the line to itself before it is done, so that the caller waits
    /// for one line, and the thread for none.
    done: Box<[CachePadded<AtomicU64>]>,
    /// Does the caller sleep until they are done?
    parked: CachePadded<AtomicBool>,
    callers: CachePadded<BoardOwner>,
}

/// What others read of a job.
#[derive(Default)]
struct JobHeader {
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
struct BoardOwner {
    /// Is it taken by a caller's job?
    taken: AtomicBool,
    /// Who sleeps until it is done.
    sleeper: Mutex<Option<Thread>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Bits for tasks of a lane. The others number the jobs of a month, one each two microseconds: so
/// long a thread would have to stop between looking at a job and taking a task to mistake one for
/// another.
const TASK_BITS: u32 = 22;
/// Tasks that a job has at most.
pub(crate) const MAX_TASKS: usize = 1 << (TASK_BITS - 1);

/// A job as a thread saw it.
#[derive(Clone, Copy)]
pub(crate) struct JobTicket {
    number: u64,
    tasks: usize,
    schedule: Schedule,
}

/// How the tasks of a job are given out.
#[derive(Clone, Copy)]
pub(crate) struct Schedule {
    /// From the last one of each lane on.
    pub(crate) backwards: bool,
    /// There is so little to do that looking at another's lane, and fetching what its tasks read,
    /// takes as long: so many tasks are the caller's, no other thread does one of them, and he does
    /// others' only after waiting for them.
    pub(crate) own: Option<NonZero<usize>>,
}

// SAFETY: all fields but `f` are `Sync`, and `f` points to something that is `Sync`; when it may be
// read and followed is argued in `JobBoard::post` and `JobBoard::work_on`. It may be sent for the
// same reason.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Sync for JobBoard {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a pointer to a function that several threads call")]
unsafe impl Send for JobBoard {}

impl JobBoard {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> JobBoard {
        let lines = || (0..threads).map(|_| CachePadded::default()).collect();
        JobBoard {
            post: CachePadded::default(),
            lanes: lines(),
            done: lines(),
            parked: CachePadded::default(),
            callers: CachePadded::default(),
        }
    }

    /// Calls `f` for each task, together with those who look, and returns when all have returned;
    /// `posted` is called in between. `None`: another's job stands here.
    ///
    /// # Errors
    /// What a task panicked with, after all others are done.
    pub(crate) fn run(
        &self,
        tasks: usize,
        schedule: Schedule,
        park_after: Duration,
        f: &(dyn Fn(usize) + Sync),
        posted: impl FnOnce(),
    ) -> Option<Result<(), Box<dyn Any + Send>>> {
        let BoardOwner { taken, panic, .. } = &self.callers.0;
        if taken.load(Relaxed) || taken.swap(true, Acquire) {
            return None;
        }
        let (ticket, first) = self.post(tasks, schedule, f);
        posted();
        let mut own_done = self.work_on(&ticket, 0, first);
        if !self.poll_small_job(&ticket, own_done) {
            own_done += self.work(&ticket, 0);
            self.wait(&ticket, own_done, park_after);
        }
        let panic = lock(panic).take();
        taken.store(false, Release);
        Some(panic.map_or(Ok(()), Err))
    }

    /// Posts a job of which the caller has taken the first tasks, which are given back by number.
    /// Only who has set `taken` may.
    fn post(
        &self,
        tasks: usize,
        schedule: Schedule,
        f: &(dyn Fn(usize) + Sync),
    ) -> (JobTicket, Range<usize>) {
        assert!(tasks <= MAX_TASKS, "tasks have numbers");
        let post = &self.post.0;
        let number = post.job.load(Relaxed) + 2;
        post.job.store(number - 1, Relaxed);
        // A thread that sees something of what follows sees an odd number, if it looks again.
        fence(Release);
        // So this comes after it: who found the word of a later job, and not that its own is over,
        // would take it for an older one.
        let first = schedule.own.map_or(1, NonZero::get);
        self.lanes[0].0.store(number << TASK_BITS | first as u64, Relaxed);
        post.tasks.store(tasks, Relaxed);
        post.backwards.store(schedule.backwards, Relaxed);
        post.own.store(schedule.own.map_or(0, NonZero::get), Relaxed);
        let f: *const (dyn Fn(usize) + Sync + '_) = f;
        // SAFETY: the types differ in a lifetime only, which pointers do not rely on; `work_on`
        // argues when it is followed.
        #[allow(unsafe_code, reason = "a pointer that outlives what it points to, and is not followed then")]
        let f: *const (dyn Fn(usize) + Sync + 'static) = unsafe { std::mem::transmute(f) };
        // SAFETY: no other thread writes it, as the caller has set `taken`; and who reads it holds
        // a task of the job before, which its caller has waited for (`wait`, Acquire after the
        // reader's Release).
        #[allow(unsafe_code, reason = "a pointer that others read between two jobs of callers")]
        unsafe {
            *post.f.get() = Some(f);
        }
        // Release: a thread that sees the number sees the job.
        post.job.store(number, Release);
        (JobTicket { number, tasks, schedule }, 0..first)
    }

    /// Has another job been posted than number `ticket`?
    #[inline]
    pub(crate) fn is_new_job(&self, ticket: u64) -> bool {
        self.post.0.job.load(Relaxed) != ticket
    }

    /// The job that stands here, or stood here last, if it is another than number `ticket`, which
    /// becomes its number.
    pub(crate) fn new_ticket(&self, ticket: &mut u64) -> Option<JobTicket> {
        let post = &self.post.0;
        let number = post.job.load(Acquire);
        if number == *ticket || number % 2 == 1 {
            return None;
        }
        let tasks = post.tasks.load(Relaxed);
        let schedule =
            Schedule { backwards: post.backwards.load(Relaxed), own: NonZero::new(post.own.load(Relaxed)) };
        fence(Acquire);
        if post.job.load(Relaxed) != number {
            return None;
        }
        *ticket = number;
        Some(JobTicket { number, tasks, schedule })
    }

    /// Takes a task from a lane of a job, or of small work all: by number in the lane. Empty: there
    /// is none.
    fn take(&self, ticket: &JobTicket, lane: usize) -> Range<usize> {
        let word = &self.lanes[lane].0;
        let (start, end) = self.lane(ticket, lane);
        let mut was = word.load(Acquire);
        loop {
            let next = if was >> TASK_BITS << TASK_BITS == ticket.number << TASK_BITS {
                (was & ((1 << TASK_BITS) - 1)) as usize
            } else if self.is_new_job(ticket.number) {
                // The job is over: the thread that took a task of a later one, or posted it, wrote
                // the word (Release) after that was to be seen, and we have read it (Acquire).
                return 0..0;
            } else {
                // No thread has been here.
                0
            };
            if next == end - start {
                return 0..0;
            }
            let then = if ticket.schedule.own.is_some() { end - start } else { next + 1 };
            let word_then = ticket.number << TASK_BITS | then as u64;
            match word.compare_exchange_weak(was, word_then, AcqRel, Acquire) {
                Ok(_) => return next..then,
                Err(now) => was = now,
            }
        }
    }

    fn lanes(&self, ticket: &JobTicket) -> usize {
        self.lanes.len().min(ticket.tasks)
    }
    /// The tasks of a lane.
    fn lane(&self, ticket: &JobTicket, lane: usize) -> (usize, usize) {
        // The caller's tasks, and between how many lanes the others are shared.
        let (own, count) = match ticket.schedule.own {
            Some(own) if lane == 0 => return (0, own.get()),
            Some(own) => (own.get(), self.lanes(ticket) - 1),
            None => (0, self.lanes(ticket)),
        };
        let lane = lane - usize::from(own > 0);
        let rest = ticket.tasks - own;
        (own + rest * lane / count, own + rest * (lane + 1) / count)
    }

    /// Does tasks of others' jobs until all are taken, beginning with those of lane `me`.
    pub(crate) fn help(&self, ticket: &JobTicket, me: usize) {
        let finished = self.work(ticket, me);
        if finished == 0 {
            return;
        }
        // Release: a thread that sees the count sees what the tasks wrote.
        self.done[me].0.store(ticket.number << TASK_BITS | finished as u64, Release);
        // Either this sees that the caller sleeps, or he, who looks once more, sees the count.
        fence(SeqCst);
        if self.parked.0.load(Acquire) {
            // It may be another job's caller by now. He looks, and sleeps on.
            if let Some(thread) = lock(&self.callers.0.sleeper).clone() {
                thread.unpark();
            }
        }
    }

    /// Does tasks of a lane until all are taken, first those that are the thread's own already;
    /// says how many.
    fn work_on(&self, ticket: &JobTicket, lane: usize, mut taken: Range<usize>) -> usize {
        let (start, end) = self.lane(ticket, lane);
        let mut finished = 0;
        loop {
            if taken.is_empty() {
                taken = self.take(ticket, lane);
            }
            if taken.is_empty() {
                return finished;
            }
            // SAFETY: these tasks were taken by no other thread, as each number of a lane is given
            // out once: its word goes from each value to the next, and comes to no value of this
            // job again. The job is not over: its caller waits until `done` has counted these
            // tasks, which is after all calls have returned, and only then returns, or posts
            // another. (That the word was found with the job's number or an older one, and changed
            // from that, says so: in a job that is over, all tasks of all lanes are taken.) So the
            // pointer is this job's, which was written before its number was, and the reference
            // that it was made from, which the caller holds, is alive.
            #[allow(unsafe_code, reason = "the caller waits for these calls")]
            let f = unsafe { &*(*self.post.0.f.get()).expect("a job has been posted") };
            for n in std::mem::take(&mut taken) {
                let task = if ticket.schedule.backwards { end - 1 - n } else { start + n };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| f(task))) {
                    lock(&self.callers.0.panic).get_or_insert(panic);
                }
                finished += 1;
            }
        }
    }

    /// Does tasks until all are taken that may be, beginning with those of lane `me`; says how
    /// many.
    fn work(&self, ticket: &JobTicket, me: usize) -> usize {
        let lanes = self.lanes(ticket);
        let all =
            (0..lanes).map(|i| (me + i) % lanes).filter(|&lane| lane > 0 || ticket.schedule.own.is_none());
        all.map(|lane| self.work_on(ticket, lane, 0..0)).sum()
    }

    /// How many tasks others than the caller have done.
    fn done(&self, ticket: &JobTicket) -> usize {
        let count = |word: &CachePadded<AtomicU64>| {
            // Acquire: what the tasks wrote is to be seen.
            let word = word.0.load(Acquire);
            if word >> TASK_BITS << TASK_BITS == ticket.number << TASK_BITS {
                (word & ((1 << TASK_BITS) - 1)) as usize
            } else {
                0
            }
        };
        self.done[1..].iter().map(count).sum()
    }

    /// Of small work: are all tasks done within a moment, of which the caller did so many?
    fn poll_small_job(&self, ticket: &JobTicket, own_done: usize) -> bool {
        ticket.schedule.own.is_some()
            && (0..CALLER_POLLS).any(|_| {
                let done = own_done + self.done(ticket) == ticket.tasks;
                if !done {
                    spin_loop();
                }
                done
            })
    }

    /// Returns when others have done all tasks but so many.
    fn wait(&self, ticket: &JobTicket, own_done: usize, park_after: Duration) {
        let done = || own_done + self.done(ticket) == ticket.tasks;
        if !spin_until(park_after, done) {
            *lock(&self.callers.0.sleeper) = Some(thread::current());
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
        let board = JobBoard::new(2);
        let done = AtomicUsize::new(0);
        let f = |_: usize| _ = done.fetch_add(1, Relaxed);
        let schedule = Schedule { backwards: false, own: None };
        board
            .run(4, schedule, Duration::ZERO, &f, || ())
            .expect("no other thread is here")
            .expect("nothing panics");
        let late = board.new_ticket(&mut 0).expect("a job stood here");
        // The next job is about to be posted.
        let next = late.number + 2;
        board.post.0.job.store(next - 1, Relaxed);
        board.lanes[0].0.store(next << TASK_BITS | 1, Relaxed);
        for lane in 0..2 {
            assert_eq!(board.take(&late, lane), 0..0, "lane {lane}");
        }
        board.help(&late, 1);
        assert_eq!(done.into_inner(), 4);
        assert_eq!(board.lanes[0].0.load(Relaxed), next << TASK_BITS | 1, "and changes nothing");
    }
}
