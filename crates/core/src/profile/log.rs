//! The log of what ran, shared by all that record at a time.
//!
//! Events are added at their end. A session takes those that were asked for after its beginning, so
//! sessions may overlap and nest: each sees all that ran in its time, in every thread.

use super::call::{Call, Cost};
use crate::clock::Instant;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Is a profile recorded? Written under the lock of the log alone.
pub(super) static IS_ON: AtomicBool = AtomicBool::new(false);

/// Nanoseconds on the host's clock, which never goes back.
pub fn now() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Events that are kept at most: some 150 MB.
const MAX_EVENTS: usize = 1 << 20;

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A part of the program: a step of training, a backward pass, what a program names itself.
    Span,
    /// The call of an op, on the host.
    Op,
    /// The call of an op's gradient, on the host.
    Gradient,
    /// A kind of work at a backend's door, by the host's clock: on `cpu` and `reference` the work
    /// itself, on a device with a queue giving it to the queue.
    Work,
    /// A copy between host and device, or from device to device.
    Copy,
    /// A kernel, by the device's clock if it has one.
    Kernel,
}

impl Kind {
    /// The word for it in a trace.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Span => "span",
            Kind::Op => "op",
            Kind::Gradient => "gradient",
            Kind::Work => "work",
            Kind::Copy => "copy",
            Kind::Kernel => "kernel",
        }
    }
    /// Is it a call of the program, and not the work that comes of it?
    pub const fn is_host_call(self) -> bool {
        match self {
            Kind::Span | Kind::Op | Kind::Gradient => true,
            Kind::Work | Kind::Copy | Kind::Kernel => false,
        }
    }
}

/// Where an event is drawn: events of a track nest, or follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Track {
    /// A thread of the host, by a number from 1.
    Thread(u32),
    /// A queue of the device of this name: 0 is the first, each other a stream's.
    Queue(Arc<str>, u32),
}

/// Something that ran. Times are nanoseconds on the host's clock, from the process's first look at
/// it on.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is.
    pub kind: Kind,
    /// Its name: that of the op, of the kind of work, of the kernel.
    pub name: Cow<'static, str>,
    /// The call on whose behalf it ran.
    pub call: Call,
    /// Where it ran.
    pub track: Track,
    /// The device, if it is work.
    pub device: Option<Arc<str>>,
    /// When the host asked for it: when it began, unless it waited in a queue.
    pub given: u64,
    /// When it began.
    pub start: u64,
    /// How long it took.
    pub duration: u64,
    /// The part of the duration that nothing inside of it took.
    pub own: u64,
    /// What it takes at least.
    pub cost: Cost,
}

/// Memory in use at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The device.
    pub device: Arc<str>,
    /// When, as in [`Event::start`].
    pub at: u64,
    /// Bytes that its tensors held.
    pub bytes: u64,
}

/// A device whose clock is read after the work: its events are added when a session ends.
pub trait Source: Send + Sync {
    /// Waits for the device, and gives what ran on it since it was asked last.
    fn events(&self) -> Vec<Event>;
}

#[derive(Default)]
struct Log {
    sessions: usize,
    events: Vec<Event>,
    samples: Vec<Sample>,
    notes: Vec<String>,
    sources: Vec<Weak<dyn Source>>,
    left_out: u64,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    sessions: 0,
    events: Vec::new(),
    samples: Vec::new(),
    notes: Vec::new(),
    sources: Vec::new(),
    left_out: 0,
});

/// See [`log_number`].
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn log() -> MutexGuard<'static, Log> {
    // Lists of whole entries: a panic elsewhere does not spoil them.
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn add(event: Event) {
    let mut log = log();
    if log.sessions == 0 {
        return;
    }
    if log.events.len() < MAX_EVENTS {
        log.events.push(event);
    } else {
        log.left_out += 1;
    }
}

pub(super) fn sample(device: Arc<str>, bytes: u64) {
    let mut log = log();
    let last = log.samples.iter().rev().find(|s| s.device == device);
    if log.sessions > 0 && log.samples.len() < MAX_EVENTS && last.is_none_or(|s| s.bytes != bytes) {
        // Under the lock, so that times never go back.
        log.samples.push(Sample { device, at: now(), bytes });
    }
}

/// Which log it is: another one after the last session has ended. What devices still had to say for
/// the one before is not wanted any more.
pub fn log_number() -> u64 {
    NUMBER.load(Relaxed)
}

/// Asks a device for its events when the next session ends.
pub fn add_source(source: Weak<dyn Source>) {
    log().sources.push(source);
}

/// A sentence that a reader of the profile should know. Said once.
pub fn add_note(note: String) {
    let mut log = log();
    if log.sessions > 0 && !log.notes.contains(&note) {
        log.notes.push(note);
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// When recording began, as in [`Event::start`].
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// What ran, in no order.
    pub events: Vec<Event>,
    /// Memory in use, whenever it had changed.
    pub samples: Vec<Sample>,
    /// What a reader should know, such as a device without a clock.
    pub notes: Vec<String>,
    /// Events that there was no room for.
    pub left_out: u64,
}

/// Recording, until this ends or is dropped.
#[derive(Debug)]
#[must_use = "recording ends when this is dropped"]
pub struct Session {
    start: u64,
    left_out: u64,
    is_over: bool,
}

impl Session {
    /// Begins to record, in all threads.
    pub fn begin() -> Session {
        let mut log = log();
        log.sessions += 1;
        IS_ON.store(true, Relaxed);
        Session { start: now(), left_out: log.left_out, is_over: false }
    }
    /// Waits for the devices that worked, and gives what was recorded.
    pub fn end(mut self) -> Record {
        // What another session has asked a device for belongs to this one, too: it is in the log
        // when that one is over.
        static ENDS: Mutex<()> = Mutex::new(());
        let _alone = ENDS.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = std::mem::take(&mut log().sources);
        // Not under the lock: a device that is waited for may have something to say.
        let devices: Vec<Event> =
            sources.iter().filter_map(Weak::upgrade).flat_map(|source| source.events()).collect();
        devices.into_iter().for_each(add);
        let end = now();
        let mut log = log();
        let is_mine = |start: u64| (self.start..=end).contains(&start);
        let record = Record {
            start: self.start,
            end,
            events: log.events.iter().filter(|e| is_mine(e.given)).cloned().collect(),
            samples: log.samples.iter().filter(|s| is_mine(s.at)).cloned().collect(),
            notes: log.notes.clone(),
            left_out: log.left_out - self.left_out,
        };
        self.is_over = true;
        leave(&mut log);
        record
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.is_over {
            leave(&mut log());
        }
    }
}

/// One session less; the last one takes the log along.
fn leave(log: &mut Log) {
    log.sessions -= 1;
    if log.sessions == 0 {
        IS_ON.store(false, Relaxed);
        *log = Log::default();
        NUMBER.fetch_add(1, Relaxed);
    }
}
