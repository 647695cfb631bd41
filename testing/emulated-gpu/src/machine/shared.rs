//! Shared memory of a workgroup, which records for each granule the threads that accessed it since
//! the last barrier.

use super::signal::Signals;
use super::{Fault, FaultKind};

/// Several threads.
const MANY: u16 = u16::MAX;
/// Atomics: they do not race with each other.
const ATOMIC: u16 = u16::MAX - 1;
/// A copy in flight: no access is allowed.
const COMING: u16 = u16::MAX - 2;
/// An arrived copy, visible to all threads that have waited for its mbarrier.
const SENT: u16 = u16::MAX - 3;

/// The thread that accessed a granule, and the barrier epoch. 0: none.
#[derive(Clone, Copy, Default)]
struct Touched {
    written: u32,
    read: u32,
    writer: u16,
    reader: u16,
}

pub struct SharedMemory {
    bytes: Vec<u8>,
    touched: Vec<Touched>,
    granule: usize,
    /// Counts barriers, and starts of workgroups.
    epoch: u32,
    /// The epoch in which this workgroup started.
    first: u32,
    pub signals: Signals,
}

/// Kinds of access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    Read,
    Write,
    Atomic,
    /// Start of a copy that will write it.
    Begin,
}

impl SharedMemory {
    pub fn new(bytes: usize, granule: usize) -> SharedMemory {
        let touched = vec![Touched::default(); bytes.div_ceil(granule)];
        SharedMemory {
            bytes: vec![0xa5; bytes],
            touched,
            granule,
            epoch: 0,
            first: 0,
            signals: Signals::default(),
        }
    }
    /// Starts a workgroup.
    pub fn begin(&mut self) {
        self.epoch += 1;
        self.first = self.epoch;
        self.signals = Signals::default();
    }
    /// Number of barriers so far.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
    pub fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// Records an access, and checks it for races.
    #[inline(always)]
    pub fn touch(&mut self, at: u32, size: usize, thread: u16, how: Touch) -> Result<usize, Fault> {
        let at = at as usize;
        if at + size > self.bytes.len() {
            return Err(Fault::new(
                FaultKind::Illegal,
                format!("an access of {size} bytes at byte {at} of {} of shared memory", self.bytes.len()),
            ));
        }
        if !at.is_multiple_of(size) {
            return Err(Fault::new(
                FaultKind::Misaligned,
                format!("{size} bytes at byte {at} of shared memory"),
            ));
        }
        for g in at / self.granule..(at + size).div_ceil(self.granule) {
            let t = &mut self.touched[g];
            let written_now = t.written == self.epoch;
            let read_now = t.read == self.epoch;
            let bad = match how {
                Touch::Read => {
                    t.written < self.first
                        || (written_now && t.writer != thread && t.writer != SENT)
                        || t.writer == COMING
                }
                Touch::Write | Touch::Begin => {
                    (written_now && t.writer != thread)
                        || (read_now && t.reader != thread)
                        || (t.writer == COMING && t.written >= self.first && how == Touch::Begin)
                }
                Touch::Atomic => {
                    t.written < self.first
                        || (written_now && t.writer != thread && t.writer != ATOMIC)
                        || (read_now && t.reader != thread && t.reader != ATOMIC)
                }
            };
            if bad {
                return Err(clash(*t, at, thread, how, self.first));
            }
            match how {
                Touch::Read if read_now => {
                    if t.reader != thread {
                        t.reader = MANY;
                    }
                }
                Touch::Read => (t.read, t.reader) = (self.epoch, thread),
                Touch::Write => (t.written, t.writer) = (self.epoch, thread),
                Touch::Begin => (t.written, t.writer) = (self.epoch, COMING),
                Touch::Atomic => {
                    (t.written, t.writer) = (self.epoch, ATOMIC);
                    (t.read, t.reader) = (self.epoch, ATOMIC);
                }
            }
        }
        Ok(at)
    }
    /// Completes a copy, for all threads that wait for the same mbarrier.
    pub fn sent(&mut self, at: usize, bytes: &[u8]) {
        self.arrived(at, bytes, SENT);
    }
    /// Completes a copy.
    pub fn arrived(&mut self, at: usize, bytes: &[u8], thread: u16) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        for g in at / self.granule..(at + bytes.len()).div_ceil(self.granule) {
            (self.touched[g].written, self.touched[g].writer) = (self.epoch, thread);
        }
    }
    #[inline(always)]
    pub fn get(&self, at: usize, size: usize) -> u64 {
        let mut all = [0; 8];
        all[..size].copy_from_slice(&self.bytes[at..at + size]);
        u64::from_le_bytes(all)
    }
    #[inline(always)]
    pub fn put(&mut self, at: usize, size: usize, v: u64) {
        self.bytes[at..at + size].copy_from_slice(&v.to_le_bytes()[..size]);
    }
}

#[cold]
fn clash(t: Touched, at: usize, thread: u16, how: Touch, first: u32) -> Fault {
    let who = |n: u16| match n {
        MANY => "several threads".to_string(),
        ATOMIC => "an atomic".to_string(),
        COMING => "a copy that was not waited for".to_string(),
        SENT => "a copy under a barrier".to_string(),
        n => format!("thread {n}"),
    };
    let word = match how {
        Touch::Read => "reads",
        Touch::Write => "writes",
        Touch::Begin => "begins to copy to",
        Touch::Atomic => "changes",
    };
    let what = if t.written < first && matches!(how, Touch::Read | Touch::Atomic) {
        format!("thread {thread} {word} byte {at} of shared memory, which was never written")
    } else {
        format!(
            "a race: thread {thread} {word} byte {at} of shared memory, written by {} and read by {} since the last \
             barrier",
            who(t.writer),
            who(t.reader)
        )
    };
    Fault::new(FaultKind::Illegal, what)
}
