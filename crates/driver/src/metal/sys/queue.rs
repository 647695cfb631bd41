//! The Metal queue: work recorded into command buffers and committed in batches.
//!
//! Within a batch, launches may overlap: there is a barrier only where one touches what another
//! wrote, or writes what it touched. Between batches, and between launches and copies of one, Metal
//! keeps the order of what touches the same buffer.
//!
//! What the host writes is written in place if no work that is under way touches the buffer.
//! (That it touches other bytes of it is not enough: what host and device write at once becomes
//! undefined as a whole.) Otherwise it is copied by the device, in order.

use super::api::{Buffer, CommandQueue, Commands, Committed};
use super::memory::Memory;
use super::pipeline::Pipeline;
use super::shared::Shared;
use super::transfer::PinnedMemory;
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
const WORD: u64 = 4;

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
fn touch(s: &Slice<'_, Metal>, writes: bool) -> Touch {
    Touch { memory: s.memory.id, offset: s.offset, len: s.len, writes }
}
/// All of the memory that a slice is of, to be written.
fn whole(s: &Slice<'_, Metal>) -> Touch {
    Touch { memory: s.memory.id, offset: 0, len: s.memory.bytes.max(1), writes: true }
}
fn inside(s: &Slice<'_, Metal>) -> bool {
    s.offset.checked_add(s.len).is_some_and(|end| end <= s.memory.bytes)
}
/// May the device copy from or to here?
fn is_word(at: u64) -> bool {
    at.is_multiple_of(WORD)
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
    fn touches(&mut self, t: &Touch) -> bool {
        self.reap();
        let recorded = self.recording.iter().map(|r| &r.touched);
        recorded.chain(self.in_flight.iter().map(|(s, _)| &s.touched)).any(|all| all.clashes(t))
    }
    /// Waits for everything, with the queue locked.
    fn finish(&mut self) -> Result<()> {
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
    fn stage(&mut self, shared: &Shared, bytes: &[u8]) -> Result<(Buffer, u64)> {
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
    fn order(&mut self, touches: &[Touch]) -> Result<&mut Commands> {
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

    // Copies

    /// Writes bytes to memory: in place, if the device does not use it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn write(&mut self, shared: &Shared, to: Slice<'_, Metal>, bytes: &[u8]) -> Result<()> {
        let to = Slice { len: bytes.len() as u64, ..to };
        assert!(inside(&to), "what is written is there");
        self.check()?;
        if self.touches(&whole(&to)) {
            if is_word(to.offset) {
                let (chunk, at) = self.stage(shared, bytes)?;
                return self.copy_buffers((&chunk, at), None, &to);
            }
            self.finish()?;
        }
        // SAFETY: the range was checked; no work touches the memory, and none can be given to the
        // queue, nor can another thread read or write it, while the queue is locked.
        unsafe { to.memory.buffer.write(to.offset, bytes) };
        Ok(())
    }
    /// Records a copy of as many bytes as the target has.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn copy(&mut self, shared: &Shared, from: Slice<'_, Metal>, to: Slice<'_, Metal>) -> Result<()> {
        let from = Slice { len: to.len, ..from };
        assert!(inside(&from) && inside(&to), "what is copied is there, and fits");
        if !is_word(from.offset) || !is_word(to.offset) {
            return self.copy_by_host(&from, &to);
        }
        let touched = touch(&from, false);
        let apart = from.memory.id != to.memory.id
            || from.offset + to.len.next_multiple_of(WORD) <= to.offset
            || to.offset + to.len.next_multiple_of(WORD) <= from.offset;
        if apart {
            return self.copy_buffers((&from.memory.buffer, from.offset), Some(touched), &to);
        }
        // Metal does not say what becomes of ranges that overlap.
        let between = Memory::between(shared, to.len)?;
        let half = Slice { memory: &between, offset: 0, len: to.len };
        self.copy_buffers((&from.memory.buffer, from.offset), Some(touched), &half)?;
        self.copy_buffers((&between.buffer, 0), Some(touch(&half, false)), &to)
    }
    /// Copies from a buffer, some bytes of which it touches, whole words.
    fn copy_buffers(
        &mut self,
        (from, at): (&Buffer, u64),
        reads: Option<Touch>,
        to: &Slice<'_, Metal>,
    ) -> Result<()> {
        if to.len == 0 {
            return Ok(());
        }
        let touches: Vec<Touch> = reads.into_iter().chain([touch(to, true)]).collect();
        let bytes = to.len.next_multiple_of(WORD);
        let commands = self.order(&touches)?;
        // SAFETY: both ranges lie in their buffers, which end with whole words, begin with words,
        // and do not overlap: they are of two buffers, or were seen to be apart. What was recorded
        // before and touches them is behind a barrier.
        unsafe { commands.copy((from, at), (&to.memory.buffer, to.offset), bytes) };
        Ok(())
    }
    /// Places that no command can copy.
    fn copy_by_host(&mut self, from: &Slice<'_, Metal>, to: &Slice<'_, Metal>) -> Result<()> {
        self.finish()?;
        let mut bytes = vec![0; to.len as usize];
        // SAFETY: the ranges were checked; all work is done, and none can be given to the queue,
        // nor can another thread read or write memory, while the queue is locked.
        unsafe {
            from.memory.buffer.read(from.offset, &mut bytes);
            to.memory.buffer.write(to.offset, &bytes);
        }
        Ok(())
    }

    /// Records that a buffer's first bytes are copied to memory, and submits; gives the number of
    /// the submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn upload(&mut self, from: &PinnedMemory, to: Slice<'_, Metal>) -> Result<u64> {
        assert!(inside(&to), "what is written is there");
        if is_word(to.offset) {
            let reads = Touch { memory: from.id, offset: 0, len: to.len, writes: false };
            self.copy_buffers((&from.buffer, 0), Some(reads), &to)?;
        } else {
            self.finish()?;
            let bytes = &from.as_ref()[..to.len as usize];
            // SAFETY: as in `copy_by_host`.
            unsafe { to.memory.buffer.write(to.offset, bytes) };
        }
        self.submit()?;
        Ok(self.last())
    }
    /// Records that memory is copied to a buffer's first bytes, and submits; gives the number of
    /// the submission. Bytes behind them stay as they are.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn download(&mut self, from: Slice<'_, Metal>, to: &PinnedMemory) -> Result<u64> {
        assert!(inside(&from), "what is read is there");
        if is_word(from.offset) && is_word(from.len) {
            if from.len > 0 {
                let writes = Touch { memory: to.id, offset: 0, len: from.len, writes: true };
                let commands = self.order(&[touch(&from, false), writes])?;
                // SAFETY: both ranges lie in their buffers, which are two, and are whole words.
                // What was recorded before and touches them is behind a barrier.
                unsafe { commands.copy((&from.memory.buffer, from.offset), (&to.buffer, 0), from.len) };
            }
        } else {
            self.finish()?;
            let mut bytes = vec![0; from.len as usize];
            // SAFETY: as in `copy_by_host`; the caller's memory is its own, and at least as long.
            unsafe {
                from.memory.buffer.read(from.offset, &mut bytes);
                to.buffer.write(0, &bytes);
            }
        }
        self.submit()?;
        Ok(self.last())
    }
}
