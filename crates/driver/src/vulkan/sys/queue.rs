//! The Vulkan queue: work recorded into command buffers and submitted in batches, each the next
//! value of a timeline semaphore.
//!
//! Between two pieces of work there is a barrier only if the second touches what the first wrote,
//! or writes what it touched, so independent kernels may overlap.

use super::device::{Shared, destroy_chunk};
use super::error::error;
use super::memory::{self, Chunk, Raw};
use super::pipeline::{self, Pipeline, RawPipeline};
use crate::Slice;
use crate::vulkan::Vulkan;
use crate::vulkan::touched::{Touch, Touched};
use ash::vk;
use elinvar_core::Result;
use elinvar_kernel::interp::Launch;
use elinvar_kernel::ir::Access;
use std::collections::VecDeque;

/// Launches of a batch, at most: enough for submitting to cost little beside them, few enough for
/// the device to start soon.
const MAX_BATCH_LAUNCHES: u32 = 64;
/// Launches after which a batch is submitted if the device has nothing to do.
const EARLY_SUBMIT_LAUNCHES: u32 = 4;
/// Descriptor sets of a pool, and buffers of all of them.
const SETS_PER_POOL: u32 = 256;
const BUFFERS_PER_POOL: u32 = 6 * SETS_PER_POOL;
/// Bytes of a chunk for small uploads.
const CHUNK_BYTES: u64 = 1 << 20;
/// Bytes of a chunk for downloads, at least.
const MIN_DOWNLOAD_BYTES: u64 = 64 << 10;
/// Larger chunks are not kept.
const MAX_KEPT_BYTES: u64 = 16 << 20;

/// What was recorded together, with what it needs until it is done.
struct Batch {
    command: vk::CommandBuffer,
    pools: Vec<vk::DescriptorPool>,
    /// The pool in use.
    pool: usize,
    chunks: Vec<Chunk>,
    /// Bytes used of the last chunk.
    used: u64,
    launches: u32,
}

enum Garbage {
    Memory(Raw),
    Pipeline(RawPipeline),
    Query(vk::QueryPool),
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

/// The first bytes of a slice.
fn touch(s: &Slice<'_, Vulkan>, len: u64, writes: bool) -> Touch {
    Touch { memory: s.memory.id, offset: s.offset, len, writes }
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
            batch.chunks.into_iter().for_each(|c| destroy_chunk(shared, c));
            for pool in batch.pools {
                // SAFETY: the device is idle, and nothing else refers to the pool.
                unsafe { shared.device.destroy_descriptor_pool(pool, None) };
            }
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
            let begin =
                vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
            // SAFETY: the batch is idle, and this queue is locked.
            let begun = unsafe { shared.device.begin_command_buffer(batch.command, &begin) };
            if let Err(e) = begun {
                self.idle.push(batch);
                return Err(error("beginning to record", e));
            }
            self.recording = Some(batch);
        }
        Ok(self.recording.as_mut().expect("it was just put there"))
    }
    /// A barrier, if what comes touches what was written since the last one, or writes what was
    /// touched.
    fn order(&mut self, shared: &Shared, touches: &[Touch]) -> Result<()> {
        if touches.iter().any(|t| self.touched.clashes(t)) {
            let stages = vk::PipelineStageFlags::COMPUTE_SHADER | vk::PipelineStageFlags::TRANSFER;
            let reads = vk::AccessFlags::SHADER_READ | vk::AccessFlags::TRANSFER_READ;
            let writes = vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE;
            self.barrier(shared, stages, writes, stages, reads | writes)?;
            self.touched.clear();
        }
        touches.iter().for_each(|t| self.touched.add(t));
        Ok(())
    }
    fn barrier(
        &mut self,
        shared: &Shared,
        from: vk::PipelineStageFlags,
        written: vk::AccessFlags,
        to: vk::PipelineStageFlags,
        seen: vk::AccessFlags,
    ) -> Result<()> {
        let command = self.batch(shared)?.command;
        let barrier = [vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(seen)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is being recorded, and this queue is locked.
        unsafe { shared.device.cmd_pipeline_barrier(command, from, to, none, &barrier, &[], &[]) };
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
        let given = buffers.len() + usize::from(args.is_some());
        assert_eq!(given, kernel.access.len(), "{kernel:?} gets as many buffers as it has");
        let mut infos = Vec::with_capacity(given);
        let mut touches = Vec::with_capacity(given);
        for (b, access) in buffers.iter().zip(&kernel.access) {
            touches.push(touch(b, b.len, *access != Access::Read));
            infos.push(vk::DescriptorBufferInfo {
                buffer: b.memory.raw.buffer,
                offset: b.offset,
                range: b.len.next_multiple_of(4),
            });
        }
        if let Some(bytes) = args {
            let (buffer, offset) = self.stage(shared, bytes)?;
            infos.push(vk::DescriptorBufferInfo {
                buffer,
                offset,
                range: (bytes.len() as u64).next_multiple_of(4),
            });
        }
        self.order(shared, &touches)?;
        let batch = self.batch(shared)?;
        let set = batch.set(shared, kernel.raw.set)?;
        let writes: Vec<vk::WriteDescriptorSet<'_>> = (infos.iter().enumerate())
            .map(|(i, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(i as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(std::slice::from_ref(info))
            })
            .collect();
        let (d, command, [x, y, z]) = (&shared.device, batch.command, launch.groups);
        // SAFETY: the command buffer is being recorded, and this queue is locked; the set was made
        // for this kernel's layout; buffers, offsets and the numbers of groups are within the
        // device's limits, and all of it stays alive until the batch is done (see `bury`).
        unsafe {
            d.update_descriptor_sets(&writes, &[]);
            d.cmd_bind_pipeline(command, vk::PipelineBindPoint::COMPUTE, kernel.raw.pipeline);
            let layout = kernel.raw.layout;
            d.cmd_bind_descriptor_sets(command, vk::PipelineBindPoint::COMPUTE, layout, 0, &[set], &[]);
            if !block.is_empty() {
                d.cmd_push_constants(command, layout, vk::ShaderStageFlags::COMPUTE, 0, &block);
            }
            d.cmd_dispatch(command, x, y, z);
        }
        batch.launches += 1;
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
        let region = [vk::BufferCopy { src_offset: from_at, dst_offset: to_at, size: bytes }];
        // SAFETY: the command buffer is being recorded, and this queue is locked; both ranges are
        // in their buffers, which stay alive until the batch is done.
        unsafe { shared.device.cmd_copy_buffer(command, from, to, &region) };
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
        self.barrier(shared, transfer, written, host, seen)?;
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
        self.barrier(shared, all, written, all, seen)?;
        let command = self.batch(shared)?.command;
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
        let Some(batch) = self.recording.take() else { return Ok(self.last) };
        let number = self.last + 1;
        let (commands, signals, values) = ([batch.command], [shared.timeline], [number]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&signals)
            .push_next(&mut timeline)];
        // SAFETY: the command buffer was recorded, this queue is locked, and what the batch uses
        // stays until it is done.
        let sent = unsafe {
            shared
                .device
                .end_command_buffer(batch.command)
                .and_then(|()| shared.device.queue_submit(shared.raw_queue, &info, vk::Fence::null()))
        };
        if let Err(e) = sent {
            // Its number will never be signalled: what it holds is kept until the device is closed.
            self.in_flight.push_back((u64::MAX, batch));
            return Err(error("submitting work", e));
        }
        self.last = number;
        self.in_flight.push_back((number, batch));
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
        }
    }
}

impl Batch {
    fn new(shared: &Shared, commands: vk::CommandPool) -> Result<Batch> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(commands).command_buffer_count(1);
        // SAFETY: the pool belongs to this device, and the queue that has it is locked.
        let all = unsafe { shared.device.allocate_command_buffers(&info) }
            .map_err(|e| error("a command buffer", e))?;
        Ok(Batch { command: all[0], pools: Vec::new(), pool: 0, chunks: Vec::new(), used: 0, launches: 0 })
    }
    /// A set of this layout, until the batch is done.
    fn set(&mut self, shared: &Shared, layout: vk::DescriptorSetLayout) -> Result<vk::DescriptorSet> {
        loop {
            if self.pool == self.pools.len() {
                self.pools.push(descriptor_pool(shared)?);
            }
            let layouts = [layout];
            let info = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(self.pools[self.pool])
                .set_layouts(&layouts);
            // SAFETY: pool and layout belong to this device, and the queue that has the pool is
            // locked.
            match unsafe { shared.device.allocate_descriptor_sets(&info) } {
                Ok(sets) => return Ok(sets[0]),
                // Another pool, unless this one has nothing in it yet.
                Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL)
                    if self.launches > 0 =>
                {
                    self.pool += 1;
                }
                Err(e) => return Err(error("a set of descriptors", e)),
            }
        }
    }
    /// Makes it ready to be recorded again. It is done.
    fn reset(&mut self, shared: &Shared) {
        for &pool in &self.pools {
            // SAFETY: no work that is not done uses sets of the pool. It cannot fail.
            let _ =
                unsafe { shared.device.reset_descriptor_pool(pool, vk::DescriptorPoolResetFlags::empty()) };
        }
        (self.pool, self.used, self.launches) = (0, 0, 0);
    }
}

fn descriptor_pool(shared: &Shared) -> Result<vk::DescriptorPool> {
    let sizes = [vk::DescriptorPoolSize {
        ty: vk::DescriptorType::STORAGE_BUFFER,
        descriptor_count: BUFFERS_PER_POOL,
    }];
    let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS_PER_POOL).pool_sizes(&sizes);
    // SAFETY: the device is alive.
    unsafe { shared.device.create_descriptor_pool(&info, None) }.map_err(|e| error("descriptors", e))
}
