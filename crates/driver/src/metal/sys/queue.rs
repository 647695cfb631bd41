//! The Metal queue: work recorded into command buffers and committed in batches.
//!
//! Within a batch, launches may overlap: there is a barrier only where one touches what another
//! wrote, or writes what it touched. Between batches, and between launches and copies of one, Metal
//! keeps the order of what touches the same buffer.

use super::api::{Buffer, CommandQueue, Commands, Committed};
use super::pipeline::Pipeline;
use super::shared::Shared;
use crate::Slice;
use crate::metal::{ALIGNMENT, Metal};
use crate::touched::{Touch, Touched};
use elinvar_core::{Error, Result};
use elinvar_kernel::emit::msl::param_bytes;
use elinvar_kernel::interp::Launch;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Launches of a batch, at most: enough for committing to cost little beside them, few enough for
/// the device to start soon.
const MAX_BATCH_LAUNCHES: u32 = 64;
/// Launches after which a batch is committed if the device has nothing to do.
const EARLY_SUBMIT_LAUNCHES: u32 = 4;
/// Bytes of a chunk for what the host writes.
const CHUNK_BYTES: u64 = 1 << 20;
/// Chunks that are kept for the next batches, if they are no larger.
const MAX_KEPT: usize = 8;
/// Bytes of parameters that a command buffer takes along, by Metal's documentation.
const MAX_PARAM_BYTES: usize = 4096;
/// What begins and ends a copy by the device, on macOS.
pub(super) const WORD: u64 = 4;

/// What was committed.
pub struct Submission {
    pub number: u64,
    pub committed: Committed,
    /// When it and everything before it was done, in seconds; noted when the queue has seen it.
    pub end: OnceLock<f64>,
    touched: Touched,
}

/// What is recorded and not committed.
struct Recording {
    commands: Commands,
    /// Since its beginning, and since the last barrier.
    touched: Touched,
    since: Touched,
    /// What the host has written for it, of the last so many bytes.
    chunks: Vec<Buffer>,
    used: u64,
    launches: u32,
}

/// The device's queue.
pub struct Queue {
    raw: CommandQueue,
    recording: Option<Recording>,
    in_flight: VecDeque<(Arc<Submission>, Vec<Buffer>)>,
    chunks: Vec<Buffer>,
    /// The last submission.
    latest: Option<Arc<Submission>>,
    /// When the last one of those that are done was.
    end: f64,
    /// What went wrong first. What it would have written is lost, so nothing is done any more.
    fault: Option<Error>,
}

/// Bytes of a slice.
pub(super) fn touch(s: &Slice<'_, Metal>, writes: bool) -> Touch {
    Touch { memory: s.memory.id, offset: s.offset, len: s.len, writes }
}
pub(super) fn inside(s: &Slice<'_, Metal>) -> bool {
    s.offset.checked_add(s.len).is_some_and(|end| end <= s.memory.bytes)
}
impl Queue {
    pub fn new(raw: CommandQueue) -> Queue {
        Queue {
            raw,
            recording: None,
            in_flight: VecDeque::new(),
            chunks: Vec::new(),
            latest: None,
            end: 0.0,
            fault: None,
        }
    }

    // What is done

    /// The number of the last submission.
    pub fn last(&self) -> u64 {
        self.latest.as_ref().map_or(0, |s| s.number)
    }
    /// The number of the last submission that is done with all before it.
    pub fn done(&self) -> u64 {
        self.in_flight.front().map_or(self.last(), |(s, _)| s.number - 1)
    }
    /// # Errors
    /// What went wrong.
    pub fn check(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }
    /// Takes back what submissions that are done have used.
    pub fn reap(&mut self) {
        for (s, _) in &self.in_flight {
            if let Some(e) = s.committed.outcome().and_then(|o| o.error) {
                self.fault.get_or_insert(e);
            }
        }
        while let Some(outcome) = self.in_flight.front().and_then(|(s, _)| s.committed.outcome()) {
            let Some((submission, chunks)) = self.in_flight.pop_front() else { break };
            self.end = self.end.max(outcome.end);
            // It is set here alone.
            let _ = submission.end.set(self.end);
            let kept = chunks.into_iter().filter(|c| c.len() == CHUNK_BYTES);
            self.chunks.extend(kept.take(MAX_KEPT.saturating_sub(self.chunks.len())));
        }
    }
    /// The last submission up to this one that is not done.
    pub fn under_way(&self, number: u64) -> Option<Arc<Submission>> {
        let mut all = self.in_flight.iter().rev();
        let found = all.find(|(s, _)| s.number <= number && s.committed.outcome().is_none());
        found.map(|(s, _)| s.clone())
    }
    /// Work that is still to write some of these bytes; what is only recorded is submitted.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn writer(&mut self, from: &Slice<'_, Metal>) -> Result<Option<Arc<Submission>>> {
        let t = touch(from, false);
        if from.len == 0 {
            return Ok(None);
        }
        if self.recording.as_ref().is_some_and(|r| r.touched.clashes(&t)) {
            self.submit()?;
        }
        self.reap();
        let mut all = self.in_flight.iter().rev();
        let found = all.find(|(s, _)| s.touched.clashes(&t) && s.committed.outcome().is_none());
        Ok(found.map(|(s, _)| s.clone()))
    }
    /// Does work that is recorded or under way touch it?
    pub(super) fn touches(&mut self, t: &Touch) -> bool {
        self.reap();
        let recorded = self.recording.iter().map(|r| &r.touched);
        recorded.chain(self.in_flight.iter().map(|(s, _)| &s.touched)).any(|all| all.clashes(t))
    }
    /// Waits for everything, with the queue locked.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.submit()?;
        self.in_flight.iter().for_each(|(s, _)| s.committed.wait());
        self.reap();
        self.check()
    }

    // Recording

    fn recording(&mut self) -> Result<&mut Recording> {
        self.check()?;
        if self.recording.is_none() {
            self.reap();
            let commands =
                Commands::new(&self.raw).ok_or_else(|| Error::memory("metal: no command buffer"))?;
            self.recording = Some(Recording {
                commands,
                touched: Touched::default(),
                since: Touched::default(),
                chunks: Vec::new(),
                used: 0,
                launches: 0,
            });
        }
        Ok(self.recording.as_mut().expect("it was just put there"))
    }
    /// Commits what was recorded.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn submit(&mut self) -> Result<()> {
        self.check()?;
        let Some(Recording { commands, touched, chunks, .. }) = self.recording.take() else { return Ok(()) };
        let number = self.last() + 1;
        let submission = Submission { number, committed: commands.commit(), end: OnceLock::new(), touched };
        let submission = Arc::new(submission);
        self.in_flight.push_back((submission.clone(), chunks));
        self.latest = Some(submission);
        Ok(())
    }
    /// Submits what was recorded, or something if there was never anything; gives the last
    /// submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn mark(&mut self, shared: &Shared) -> Result<Arc<Submission>> {
        if self.recording.is_none() && self.latest.is_none() {
            // A command buffer without a command has no time.
            let (chunk, at) = self.stage(shared, &[0; 2 * WORD as usize])?;
            let recording = self.recording()?;
            // SAFETY: both words are in the chunk, and no one else uses them.
            unsafe { recording.commands.copy((&chunk, at), (&chunk, at + WORD), WORD) };
        }
        self.submit()?;
        Ok(self.latest.clone().expect("something was submitted"))
    }

    /// Bytes where the device sees them, until the batch is done: in whole words.
    pub(super) fn stage(&mut self, shared: &Shared, bytes: &[u8]) -> Result<(Buffer, u64)> {
        let len = (bytes.len() as u64).next_multiple_of(WORD);
        let kept = if len <= CHUNK_BYTES { self.chunks.pop() } else { None };
        let recording = self.recording()?;
        let at = recording.used.next_multiple_of(ALIGNMENT);
        let fits = recording.chunks.last().is_some_and(|c| at + len <= c.len());
        let at = if fits { at } else { 0 };
        let mut rest = kept;
        if !fits {
            let chunk = rest.take().or_else(|| shared.buffer(len.max(CHUNK_BYTES)));
            let chunk = chunk.ok_or_else(|| Error::memory(format!("metal: {len} bytes for work to read")))?;
            recording.chunks.push(chunk);
        }
        recording.used = at + len;
        let chunk = recording.chunks.last().expect("there is one").clone();
        // SAFETY: the range lies in the chunk, which is as long or was found to have the room. It
        // belongs to this batch, which the device does not have yet, and no other place of the
        // batch is in it.
        unsafe { chunk.write(at, bytes) };
        self.chunks.extend(rest);
        Ok((chunk, at))
    }
    /// A barrier, if what comes touches what was written since the last one, or writes what was
    /// touched.
    pub(super) fn order(&mut self, touches: &[Touch]) -> Result<&mut Commands> {
        let recording = self.recording()?;
        if touches.iter().any(|t| recording.since.clashes(t)) {
            recording.commands.barrier();
            recording.since.clear();
        }
        for t in touches.iter().filter(|t| t.len > 0) {
            recording.since.add(t);
            recording.touched.add(t);
        }
        Ok(&mut recording.commands)
    }

    /// Records a launch.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, `InvalidArgument` if parameters do not fit the kernel.
    pub fn launch(
        &mut self,
        shared: &Shared,
        kernel: &Pipeline,
        buffers: &[Slice<'_, Metal>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        self.check()?;
        kernel.check(launch)?;
        let params = param_bytes(&launch.params);
        if params.len() > MAX_PARAM_BYTES {
            let text = format!("metal: {kernel:?}: {} bytes of parameters", params.len());
            return Err(Error::unsupported(text));
        }
        let given = buffers.len() + usize::from(args.is_some());
        assert_eq!(given, kernel.reads.len(), "{kernel:?} gets as many buffers as it has");
        assert!(buffers.iter().all(inside), "{kernel:?} gets memory that is there");
        if launch.groups.contains(&0) {
            return Ok(());
        }
        let staged = args.map(|bytes| self.stage(shared, bytes)).transpose()?;
        let touches: Vec<Touch> =
            buffers.iter().zip(&kernel.reads).map(|(b, &read)| touch(b, !read)).collect();
        let commands = self.order(&touches)?;
        let memory = buffers.iter().map(|b| (&b.memory.buffer, b.offset));
        let bound: Vec<(&Buffer, u64)> = memory.chain(staged.iter().map(|(b, at)| (b, *at))).collect();
        // SAFETY: these are the kernel's buffers, in its order, each inside of its memory, and its
        // parameters. That its accesses are in bounds for the launches that it is given is what a
        // kernel of this project is tested for by the interpreter. What may not overlap with it, is
        // behind a barrier.
        unsafe { commands.launch(&kernel.raw, &bound, &params, launch, kernel.group) };
        let recording = self.recording()?;
        recording.launches += 1;
        let recorded = recording.launches;
        let asks = recorded.is_multiple_of(EARLY_SUBMIT_LAUNCHES);
        if asks {
            self.reap();
        }
        let starving = asks && self.in_flight.is_empty();
        if recorded >= MAX_BATCH_LAUNCHES || starving { self.submit() } else { Ok(()) }
    }
}
