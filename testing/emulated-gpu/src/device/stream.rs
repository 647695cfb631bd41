//! Streams and events: what runs when.
//!
//! A stream runs only when the host or another stream waits for it, so what forgets to wait finds
//! old bytes, each time.

use super::{Device, Done, Error, Operation, Work};
use crate::machine::{Fault, FaultKind, run};
use crate::sys::raw::Raw;
use std::collections::VecDeque;
use std::sync::Arc;

/// Operations that a stream defers; beyond that, the oldest are run.
const MOST_KEPT: usize = 1024;

/// A stream: its operations, each with the time at which it can begin at the earliest, and the time
/// at which all before them were done.
///
/// A time is a number of instructions, each counted as a nanosecond, so that timings do not depend
/// on the load of the host. Streams run side by side, as if the device had room for all of them.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) operations: VecDeque<(u64, Operation)>,
    pub(super) clock: u64,
}

/// The state of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Never recorded: waiting for it returns at once.
    New,
    /// Recorded in this stream, and not reached yet.
    Ahead(u64),
    /// Reached when the device's clock had this value.
    Passed(u64),
}

/// The number of instructions that a copy of this many bytes counts as.
fn copied(bytes: u64) -> u64 {
    1 + bytes / 512
}

impl Device {
    /// Adds an operation to a stream.
    pub fn push(&mut self, stream: u64, operation: Operation) -> Done {
        if !self.streams.contains_key(&stream) {
            return Err(Error::INVALID_HANDLE);
        }
        if let Some(all) = self.captures.get_mut(&stream) {
            return match operation {
                Operation::Work(work) => {
                    all.push(work);
                    Ok(())
                }
                // Operations that the project does not capture are not emulated.
                Operation::Up(..)
                | Operation::Down(..)
                | Operation::Graph(_)
                | Operation::Record(_)
                | Operation::Await(_)
                | Operation::Free(_) => Err(Error::CAPTURE_UNSUPPORTED),
            };
        }
        let mut begin = self.now;
        // Bytes that the host may free are copied at once.
        let at_once = match &operation {
            Operation::Up(host, _) | Operation::Down(_, host) => !self.is_pinned(host),
            Operation::Record(event) => {
                *self.events.get_mut(event).ok_or(Error::INVALID_HANDLE)? = Event::Ahead(stream);
                false
            }
            Operation::Await(event) => {
                if let Event::Passed(time) = self.known(*event)? {
                    begin = begin.max(time);
                }
                false
            }
            Operation::Work(_) | Operation::Graph(_) | Operation::Free(_) => false,
        };
        let queue = &mut self.streams.entry(stream).or_default().operations;
        queue.push_back((begin, operation));
        if at_once {
            return self.finish(stream);
        }
        if queue.len() > MOST_KEPT {
            self.next(stream)?;
        }
        Ok(())
    }
    /// Runs all operations of a stream; the host waits for them.
    pub fn finish(&mut self, stream: u64) -> Done {
        while self.next(stream)? {}
        let done = self.streams.get(&stream).ok_or(Error::INVALID_HANDLE)?.clock;
        self.now = self.now.max(done);
        Ok(())
    }
    /// Runs all operations of all streams.
    pub fn finish_all(&mut self) -> Done {
        let all: Vec<u64> = self.streams.keys().copied().collect();
        all.into_iter().try_for_each(|s| self.finish(s))
    }
    /// The state of an event that may have been destroyed since.
    fn ahead(&self, event: u64) -> Option<Event> {
        self.events.get(&event).or_else(|| self.orphans.get(&event)).copied()
    }
    pub(super) fn known(&self, event: u64) -> Done<Event> {
        self.events.get(&event).copied().ok_or(Error::INVALID_HANDLE)
    }
    /// Was an event reached? Each query lets its stream run one operation.
    pub fn passed(&mut self, event: u64) -> Done<bool> {
        if let Event::Ahead(stream) = self.known(event)? {
            self.next(stream)?;
        }
        Ok(!matches!(self.known(event)?, Event::Ahead(_)))
    }
    /// Runs the operations before an event; the host waits for them.
    pub fn wait(&mut self, event: u64) -> Done {
        while let Event::Ahead(stream) = self.known(event)? {
            if !self.next(stream)? {
                return Err(Error::INVALID_HANDLE);
            }
        }
        if let Event::Passed(time) = self.known(event)? {
            self.now = self.now.max(time);
        }
        Ok(())
    }
    /// Milliseconds between two events.
    pub fn elapsed(&self, from: u64, to: u64) -> Done<f32> {
        match (self.known(from)?, self.known(to)?) {
            (Event::Passed(a), Event::Passed(b)) => Ok(b.saturating_sub(a) as f32 * 1e-6),
            (Event::New, _) | (_, Event::New) => Err(Error::INVALID_HANDLE),
            (Event::Ahead(_), _) | (_, Event::Ahead(_)) => Err(Error::NOT_READY),
        }
    }
    /// Runs the next operation of a stream; false if there is none.
    fn next(&mut self, stream: u64) -> Done<bool> {
        self.check()?;
        let Some(s) = self.streams.get_mut(&stream) else { return Ok(false) };
        let Some((begin, operation)) = s.operations.pop_front() else { return Ok(false) };
        let begin = s.clock.max(begin);
        match self.one(&operation, begin) {
            Ok(end) => {
                if let Some(s) = self.streams.get_mut(&stream) {
                    s.clock = end;
                }
                Ok(true)
            }
            Err((error, what)) => {
                eprintln!("{}: {what}", self.properties.name);
                self.sticky = Some(error);
                Err(error)
            }
        }
    }
    fn range(&self, at: u64, bytes: u64) -> Result<(&Arc<Raw>, usize), (Error, String)> {
        self.memory.range(at, bytes).ok_or_else(|| {
            let what = format!("a copy of {bytes} bytes at {at:#x}, beyond what is allocated there");
            (Error::ILLEGAL_ADDRESS, what)
        })
    }
    /// Runs work; returns the number of instructions it counts as.
    fn steps(&self, work: &Work) -> Result<u64, (Error, String)> {
        match work {
            Work::Across { from, to, bytes } => {
                let ((to, to_at), (from, from_at)) = (self.range(*to, *bytes)?, self.range(*from, *bytes)?);
                to.copy_from(to_at, from, from_at, *bytes as usize);
                Ok(copied(*bytes))
            }
            Work::Multiply(product) => product
                .run(&self.memory)
                .map_err(|what| (Error::ILLEGAL_ADDRESS, format!("a product: {what}"))),
            Work::Launch(program, launch) => run(program, launch, &self.memory).map_err(|f: Fault| {
                let error = match f.kind {
                    FaultKind::Illegal => Error::ILLEGAL_ADDRESS,
                    FaultKind::Misaligned => Error::MISALIGNED_ADDRESS,
                    FaultKind::Launch => Error::INVALID_VALUE,
                };
                (error, f.what)
            }),
        }
    }
    /// Runs an operation that begins at a time; returns when it ends.
    fn one(&mut self, operation: &Operation, begin: u64) -> Result<u64, (Error, String)> {
        Ok(begin
            + match operation {
                Operation::Up(host, to) => {
                    let (raw, at) = self.range(*to, host.len() as u64)?;
                    host.copy_to(raw, at);
                    copied(host.len() as u64)
                }
                Operation::Down(from, host) => {
                    let (raw, at) = self.range(*from, host.len() as u64)?;
                    host.copy_from(raw, at);
                    copied(host.len() as u64)
                }
                Operation::Work(work) => 1 + self.steps(work)?,
                Operation::Graph(all) => {
                    all.iter().try_fold(0, |sum, work| Ok(sum + 1 + self.steps(work)?))?
                }
                Operation::Await(event) => {
                    while let Some(Event::Ahead(stream)) = self.ahead(*event) {
                        let went = self.next(stream).map_err(|e| (e, "what is waited for".to_string()))?;
                        if !went {
                            return Err((Error::INVALID_HANDLE, "streams wait for each other".to_string()));
                        }
                    }
                    match self.ahead(*event) {
                        Some(Event::Passed(time)) => time.saturating_sub(begin),
                        Some(Event::New | Event::Ahead(_)) | None => 0,
                    }
                }
                Operation::Record(event) => {
                    let all = [&mut self.events, &mut self.orphans];
                    if let Some(recorded) = all.into_iter().find_map(|e| e.get_mut(event)) {
                        *recorded = Event::Passed(begin);
                    }
                    0
                }
                Operation::Free(address) => {
                    self.release(*address)
                        .map_err(|e| (e, format!("memory at {address:#x} is freed, and there is none")))?;
                    0
                }
            })
    }
}
