//! The Vulkan queue: work recorded into command buffers and submitted in batches, each the next
//! value of a timeline semaphore.
//!
//! Between two pieces of work there is a barrier only if the second touches what the first wrote,
//! or writes what it touched, so independent kernels may overlap.

use super::batch::{Batch, barrier, binding, order, record_copy, touch};
use super::device::{Shared, destroy_chunk};
use super::error::error;
use super::memory::{self, Chunk, Raw};
use super::pipeline::{self, Pipeline, RawPipeline};
use crate::Slice;
use crate::touched::{Touch, Touched};
use crate::vulkan::Vulkan;
use ash::vk;
use elinvar_core::Result;
use elinvar_kernel::interp::Launch;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// Launches of a batch, at most: enough for submitting to cost little beside them, few enough for
/// the device to start soon.
const MAX_BATCH_LAUNCHES: u32 = 64;
/// Launches after which a batch is submitted if the device has nothing to do.
const EARLY_SUBMIT_LAUNCHES: u32 = 4;
/// Bytes of a chunk for small uploads.
const CHUNK_BYTES: u64 = 1 << 20;
/// Bytes of a chunk for downloads, at least.
const MIN_DOWNLOAD_BYTES: u64 = 64 << 10;
/// Larger chunks are not kept.
const MAX_KEPT_BYTES: u64 = 16 << 20;

enum Garbage {
    Memory(Raw),
    Pipeline(RawPipeline),
    Query(vk::QueryPool),
    Commands(Option<Batch>, vk::CommandPool),
}

/// The device's queue.
pub struct Queue {
    commands: vk::CommandPool,
    recording: Option<Batch>,
    in_flight: VecDeque<(u64, Batch)>,
    idle: Vec<Batch>,
    /// For uploads, and for downloads.
    chunks: Vec<Chunk>,
    downs: Vec<Chunk>,
    /// The number of the last submission.
    last: u64,
    /// What was touched since the last barrier.
    touched: Touched,
    dead: Vec<(u64, Garbage)>,
}

impl Queue {
    pub fn new(commands: vk::CommandPool) -> Queue {
        Queue {
            commands,
            recording: None,
            in_flight: VecDeque::new(),
            idle: Vec::new(),
            chunks: Vec::new(),
            downs: Vec::new(),
            last: 0,
            touched: Touched::default(),
            dead: Vec::new(),
        }
    }

    // What is dropped

    pub fn bury_memory(&mut self, shared: &Shared, raw: Raw) {
        self.bury(shared, Garbage::Memory(raw));
    }
    pub fn bury_pipeline(&mut self, shared: &Shared, raw: RawPipeline) {
        self.bury(shared, Garbage::Pipeline(raw));
    }
    pub fn bury_query(&mut self, shared: &Shared, pool: vk::QueryPool) {
        self.bury(shared, Garbage::Query(pool));
    }
    /// Commands that are kept, with the pool that they came from.
    pub fn bury_commands(&mut self, shared: &Shared, batch: Option<Batch>, pool: vk::CommandPool) {
        self.bury(shared, Garbage::Commands(batch, pool));
    }
    fn bury(&mut self, shared: &Shared, dead: Garbage) {
        let until = self.last + u64::from(self.recording.is_some());
        self.dead.push((until, dead));
        // An error here is reported by the next wait.
        drop(self.reap(shared));
    }
    /// Takes back what submissions that are done have used.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn reap(&mut self, shared: &Shared) -> Result<()> {
        let done = shared.done()?;
        while self.in_flight.front().is_some_and(|(n, _)| *n <= done) {
            let Some((_, mut batch)) = self.in_flight.pop_front() else { break };
            for chunk in batch.chunks.drain(..) {
                if chunk.bytes <= MAX_KEPT_BYTES && self.chunks.len() < 8 {
                    self.chunks.push(chunk);
                } else {
                    destroy_chunk(shared, chunk);
                }
            }
            batch.reset(shared);
            self.idle.push(batch);
        }
        let (gone, stay): (Vec<_>, Vec<_>) = self.dead.drain(..).partition(|(until, _)| *until <= done);
        self.dead = stay;
        gone.into_iter().for_each(|(_, dead)| dead.destroy(shared));
        Ok(())
    }
    /// Destroys everything. The device is idle.
    pub fn destroy(mut self, shared: &Shared) {
        let batches = self.recording.take().into_iter();
        for batch in batches.chain(self.in_flight.drain(..).map(|(_, b)| b)).chain(self.idle.drain(..)) {
            batch.destroy(shared);
        }
        self.chunks.drain(..).chain(self.downs.drain(..)).for_each(|c| destroy_chunk(shared, c));
        self.dead.drain(..).for_each(|(_, dead)| dead.destroy(shared));
        // SAFETY: as above; command buffers go with their pool.
        unsafe { shared.device.destroy_command_pool(self.commands, None) };
    }

    // Recording

    /// The batch that is recorded.
    fn batch(&mut self, shared: &Shared) -> Result<&mut Batch> {
        if self.recording.is_none() {
            self.reap(shared)?;
            let batch = match self.idle.pop() {
                Some(batch) => batch,
                None => Batch::new(shared, self.commands)?,
            };
            // It is idle, and this queue is locked.
            if let Err(e) = batch.begin(shared, vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT) {
                self.idle.push(batch);
                return Err(e);
            }
            self.recording = Some(batch);
        }
        Ok(self.recording.as_mut().expect("it was just put there"))
    }
    /// A barrier, if what comes touches what was written since the last one, or writes what was
    /// touched.
    fn order(&mut self, shared: &Shared, touches: &[Touch]) -> Result<()> {
        let command = self.batch(shared)?.command;
        order(shared, command, &mut self.touched, touches);
        Ok(())
    }

    /// Records a launch.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`, `InvalidArgument` if parameters do not fit the kernel.
    pub fn launch(
        &mut self,
        shared: &Shared,
        kernel: &Pipeline,
        buffers: &[Slice<'_, Vulkan>],
        launch: &Launch,
        args: Option<&[u8]>,
    ) -> Result<()> {
        let block = kernel.block(&launch.params)?;
        let (mut infos, touches) = kernel.bind(buffers);
        if let Some(bytes) = args {
            let (buffer, offset) = self.stage(shared, bytes)?;
            infos.push(binding(buffer, offset, bytes.len() as u64));
        }
        assert_eq!(infos.len(), kernel.access.len(), "{kernel:?} gets as many buffers as it has");
        self.order(shared, &touches)?;
        let batch = self.batch(shared)?;
        batch.launch(shared, kernel, &infos, &block, launch.groups)?;
        let recorded = batch.launches;
        let starving = recorded.is_multiple_of(EARLY_SUBMIT_LAUNCHES) && shared.done()? == self.last;
        if recorded >= MAX_BATCH_LAUNCHES || starving {
            self.submit(shared)?;
        }
        Ok(())
    }

    /// Bytes where the device sees them, until the batch is done.
    fn stage(&mut self, shared: &Shared, bytes: &[u8]) -> Result<(vk::Buffer, u64)> {
        let len = bytes.len() as u64;
        let alignment = shared.physical.info.alignment;
        let batch = self.batch(shared)?;
        let at = batch.used.next_multiple_of(alignment);
        let fits = batch.chunks.last().is_some_and(|c| at + len.next_multiple_of(4) <= c.bytes);
        let at = if fits {
            at
        } else {
            let wanted = len.next_multiple_of(4).max(CHUNK_BYTES);
            let kept = self.chunks.iter().position(|c| c.bytes >= wanted);
            let chunk = match kept {
                Some(i) => self.chunks.swap_remove(i),
                None => shared.chunk(wanted, shared.types.up)?,
            };
            self.batch(shared)?.chunks.push(chunk);
            0
        };
        let batch = self.batch(shared)?;
        batch.used = at + len;
        let chunk = batch.chunks.last_mut().expect("there is one");
        chunk.write(at, bytes);
        Ok((chunk.raw.buffer, at))
    }

    /// Records that bytes are written to memory.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn write(&mut self, shared: &Shared, to: Slice<'_, Vulkan>, bytes: &[u8]) -> Result<()> {
        let (from, at) = self.stage(shared, bytes)?;
        self.order(shared, &[touch(&to, bytes.len() as u64, true)])?;
        self.record_copy(shared, from, at, to.memory.raw.buffer, to.offset, bytes.len() as u64)
    }
    /// Records a copy of as many bytes as the target has.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn copy(&mut self, shared: &Shared, from: Slice<'_, Vulkan>, to: Slice<'_, Vulkan>) -> Result<()> {
        self.order(shared, &[touch(&from, to.len, false), touch(&to, to.len, true)])?;
        let (a, b) = (from.memory.raw.buffer, to.memory.raw.buffer);
        self.record_copy(shared, a, from.offset, b, to.offset, to.len)
    }
    fn record_copy(
        &mut self,
        shared: &Shared,
        from: vk::Buffer,
        from_at: u64,
        to: vk::Buffer,
        to_at: u64,
        bytes: u64,
    ) -> Result<()> {
        let command = self.batch(shared)?.command;
        record_copy(shared, command, (from, from_at), (to, to_at), bytes);
        Ok(())
    }
    /// Records that memory is copied to where the host can read it, and submits. Gives where, and
    /// which submission to wait for.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn fetch(&mut self, shared: &Shared, from: Slice<'_, Vulkan>) -> Result<(Chunk, u64)> {
        let chunk = match self.downs.iter().position(|c| c.bytes >= from.len) {
            Some(i) => self.downs.swap_remove(i),
            None => shared.chunk(from.len.max(MIN_DOWNLOAD_BYTES).next_power_of_two(), shared.types.down)?,
        };
        match self.download_to(shared, from, &chunk) {
            Ok(number) => Ok((chunk, number)),
            Err(e) => {
                // It may have been recorded, so it has to outlive the batch.
                self.bury(shared, Garbage::Memory(chunk.raw));
                Err(e)
            }
        }
    }

    /// Records that memory is copied to a chunk, and submits; gives the number of the submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn download_to(&mut self, shared: &Shared, from: Slice<'_, Vulkan>, to: &Chunk) -> Result<u64> {
        self.order(shared, &[touch(&from, from.len, false)])?;
        let buffer = from.memory.raw.buffer;
        self.record_copy(shared, buffer, from.offset, to.raw.buffer, 0, from.len)?;
        let (transfer, host) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
        let (written, seen) = (vk::AccessFlags::TRANSFER_WRITE, vk::AccessFlags::HOST_READ);
        let command = self.batch(shared)?.command;
        barrier(shared, command, (transfer, written), (host, seen));
        self.submit(shared)
    }
    /// Records that a chunk's first bytes are copied to memory, and submits; gives the number of
    /// the submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn upload_from(&mut self, shared: &Shared, from: &Chunk, to: Slice<'_, Vulkan>) -> Result<u64> {
        self.order(shared, &[touch(&to, to.len, true)])?;
        self.record_copy(shared, from.raw.buffer, 0, to.memory.raw.buffer, to.offset, to.len)?;
        self.submit(shared)
    }

    /// Takes back a chunk that was read.
    pub fn give_back(&mut self, shared: &Shared, chunk: Chunk) {
        if chunk.bytes <= MAX_KEPT_BYTES && self.downs.len() < 4 {
            self.downs.push(chunk);
        } else {
            self.bury_memory(shared, chunk.raw);
        }
    }

    /// Records that the time is written to a pool when all before is done; gives the number of the
    /// submission that it will be in.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn stamp(&mut self, shared: &Shared, pool: vk::QueryPool) -> Result<u64> {
        // Work of earlier submissions may still run when this one begins.
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let (written, seen) = (vk::AccessFlags::MEMORY_WRITE, vk::AccessFlags::MEMORY_READ);
        let command = self.batch(shared)?.command;
        barrier(shared, command, (all, written), (all, seen));
        // SAFETY: the command buffer is being recorded, and this queue is locked; the pool has one
        // time, and is destroyed only after this submission.
        unsafe {
            shared.device.cmd_reset_query_pool(command, pool, 0, 1);
            let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
            shared.device.cmd_write_timestamp(command, stage, pool, 0);
        }
        Ok(self.last + 1)
    }
    /// Submits what was recorded, if a submission of this number is still to come.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn submit_to(&mut self, shared: &Shared, number: u64) -> Result<()> {
        if self.last < number { self.submit(shared).map(drop) } else { Ok(()) }
    }

    /// Submits what was recorded; gives the number of the last submission.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn submit(&mut self, shared: &Shared) -> Result<u64> {
        self.submit_with(shared, None)
    }
    /// Submits what was recorded and, behind it, commands that are kept, all at once. They begin
    /// and end with barriers for everything.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn replay(&mut self, shared: &Shared, kept: vk::CommandBuffer) -> Result<()> {
        self.reap(shared)?;
        self.submit_with(shared, Some(kept))?;
        self.touched.clear();
        Ok(())
    }
    fn submit_with(&mut self, shared: &Shared, kept: Option<vk::CommandBuffer>) -> Result<u64> {
        let batch = self.recording.take();
        if batch.is_none() && kept.is_none() {
            return Ok(self.last);
        }
        let number = self.last + 1;
        let commands: Vec<vk::CommandBuffer> = batch.iter().map(|b| b.command).chain(kept).collect();
        let (signals, values) = ([shared.timeline], [number]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&signals)
            .push_next(&mut timeline)];
        shared.calls.submissions.fetch_add(1, Relaxed);
        // SAFETY: the command buffers were recorded, this queue is locked, and what they use stays
        // until they are done. What is kept may be submitted while it is under way.
        let sent = unsafe {
            let ended = batch.as_ref().map_or(Ok(()), |b| shared.device.end_command_buffer(b.command));
            ended.and_then(|()| shared.device.queue_submit(shared.raw_queue, &info, vk::Fence::null()))
        };
        // The number of what failed will never be signalled: what it holds is kept until the device
        // is closed.
        let until = if sent.is_ok() { number } else { u64::MAX };
        self.in_flight.extend(batch.map(|b| (until, b)));
        sent.map_err(|e| error("submitting work", e))?;
        self.last = number;
        Ok(number)
    }
}

impl Garbage {
    fn destroy(self, shared: &Shared) {
        match self {
            Garbage::Memory(raw) => memory::destroy(shared, raw),
            Garbage::Pipeline(raw) => pipeline::destroy(shared, raw),
            // SAFETY: the submissions that knew it are done.
            Garbage::Query(pool) => unsafe { shared.device.destroy_query_pool(pool, None) },
            Garbage::Commands(batch, pool) => {
                batch.into_iter().for_each(|b| b.destroy(shared));
                // SAFETY: as above; command buffers go with their pool.
                unsafe { shared.device.destroy_command_pool(pool, None) };
            }
        }
    }
}
