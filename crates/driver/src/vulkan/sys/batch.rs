//! What is recorded into a Vulkan command buffer: launches with their descriptor sets, copies,
//! barriers. The same for work that is submitted once ([`super::queue`]) and for work that is kept
//! ([`super::graph`]).

use super::device::{Shared, destroy_chunk};
use super::error::error;
use super::memory::Chunk;
use super::pipeline::Pipeline;
use crate::Slice;
use crate::touched::{Touch, Touched};
use crate::vulkan::Vulkan;
use ash::vk;
use elinvar_core::Result;
use elinvar_kernel::ir::Access;
use std::sync::atomic::Ordering::Relaxed;

/// Descriptor sets of a pool, and buffers of all of them.
const SETS_PER_POOL: u32 = 256;
const BUFFERS_PER_POOL: u32 = 6 * SETS_PER_POOL;

/// What is recorded together, with what it needs until it is done.
pub struct Batch {
    pub(super) command: vk::CommandBuffer,
    pools: Vec<vk::DescriptorPool>,
    /// The pool in use.
    pool: usize,
    pub(super) chunks: Vec<Chunk>,
    /// Bytes used of the last chunk.
    pub(super) used: u64,
    pub(super) launches: u32,
}

impl Batch {
    /// One of a pool of command buffers, whose owner is locked.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(shared: &Shared, commands: vk::CommandPool) -> Result<Batch> {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(commands).command_buffer_count(1);
        // SAFETY: the pool belongs to this device, and the queue that has it is locked.
        let all = unsafe { shared.device.allocate_command_buffers(&info) }
            .map_err(|e| error("a command buffer", e))?;
        Ok(Batch { command: all[0], pools: Vec::new(), pool: 0, chunks: Vec::new(), used: 0, launches: 0 })
    }
    /// Begins to record. It is idle.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn begin(&self, shared: &Shared, usage: vk::CommandBufferUsageFlags) -> Result<()> {
        let begin = vk::CommandBufferBeginInfo::default().flags(usage);
        // SAFETY: the device does not use it, and its owner is locked.
        unsafe { shared.device.begin_command_buffer(self.command, &begin) }
            .map_err(|e| error("beginning to record", e))
    }
    /// Records a launch, with a descriptor for each buffer of the kernel.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn launch(
        &mut self,
        shared: &Shared,
        kernel: &Pipeline,
        infos: &[vk::DescriptorBufferInfo],
        block: &[u8],
        [x, y, z]: [u32; 3],
    ) -> Result<()> {
        let set = self.set(shared, kernel.raw.set)?;
        let writes: Vec<vk::WriteDescriptorSet<'_>> = (infos.iter().enumerate())
            .map(|(i, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(i as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(std::slice::from_ref(info))
            })
            .collect();
        let (d, command) = (&shared.device, self.command);
        // SAFETY: the command buffer is being recorded, and its owner is locked; the set was made
        // for this kernel's layout; buffers, offsets and the numbers of groups are within the
        // device's limits, and all of it stays alive until the batch is done (see `bury`), or as
        // long as it is kept.
        unsafe {
            d.update_descriptor_sets(&writes, &[]);
            d.cmd_bind_pipeline(command, vk::PipelineBindPoint::COMPUTE, kernel.raw.pipeline);
            let layout = kernel.raw.layout;
            d.cmd_bind_descriptor_sets(command, vk::PipelineBindPoint::COMPUTE, layout, 0, &[set], &[]);
            if !block.is_empty() {
                d.cmd_push_constants(command, layout, vk::ShaderStageFlags::COMPUTE, 0, block);
            }
            d.cmd_dispatch(command, x, y, z);
        }
        // The set is allocated and written, two binds, the block, the launch.
        shared.calls.commands.fetch_add(5 + u64::from(!block.is_empty()), Relaxed);
        self.launches += 1;
        Ok(())
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
    pub fn reset(&mut self, shared: &Shared) {
        for &pool in &self.pools {
            // SAFETY: no work that is not done uses sets of the pool. It cannot fail.
            let _ =
                unsafe { shared.device.reset_descriptor_pool(pool, vk::DescriptorPoolResetFlags::empty()) };
        }
        (self.pool, self.used, self.launches) = (0, 0, 0);
    }
    /// Destroys all but the command buffer, which goes with its pool. The device does not use it.
    pub fn destroy(self, shared: &Shared) {
        self.chunks.into_iter().for_each(|c| destroy_chunk(shared, c));
        for pool in self.pools {
            // SAFETY: nothing that is not done refers to the pool.
            unsafe { shared.device.destroy_descriptor_pool(pool, None) };
        }
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

/// The first bytes of a slice.
pub fn touch(s: &Slice<'_, Vulkan>, len: u64, writes: bool) -> Touch {
    Touch { memory: s.memory.id, offset: s.offset, len, writes }
}

/// Bytes as a kernel is given them.
pub fn binding(buffer: vk::Buffer, offset: u64, bytes: u64) -> vk::DescriptorBufferInfo {
    vk::DescriptorBufferInfo { buffer, offset, range: bytes.next_multiple_of(4) }
}

impl Pipeline {
    /// The buffers of a launch as descriptors, and what it touches of them.
    pub(super) fn bind(&self, buffers: &[Slice<'_, Vulkan>]) -> (Vec<vk::DescriptorBufferInfo>, Vec<Touch>) {
        let one = |(b, access): (&Slice<'_, Vulkan>, &Access)| {
            (binding(b.memory.raw.buffer, b.offset, b.len), touch(b, b.len, *access != Access::Read))
        };
        buffers.iter().zip(&self.access).map(one).unzip()
    }
}

// Commands of a buffer that is being recorded, and whose owner is locked.

/// What orders launches and copies.
pub const WORK: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

/// A barrier, if what comes touches what was written since the last one, or writes what was
/// touched.
pub fn order(shared: &Shared, command: vk::CommandBuffer, touched: &mut Touched, touches: &[Touch]) {
    if touches.iter().any(|t| touched.clashes(t)) {
        work_barrier(shared, command);
        touched.clear();
    }
    touches.iter().for_each(|t| touched.add(t));
}

/// What comes sees all that launches and copies before it wrote.
pub fn work_barrier(shared: &Shared, command: vk::CommandBuffer) {
    let reads = vk::AccessFlags::SHADER_READ | vk::AccessFlags::TRANSFER_READ;
    let writes = vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE;
    barrier(shared, command, (WORK, writes), (WORK, reads | writes));
}

/// A barrier for all memory, between stages and accesses.
pub fn barrier(
    shared: &Shared,
    command: vk::CommandBuffer,
    (from, written): (vk::PipelineStageFlags, vk::AccessFlags),
    (to, seen): (vk::PipelineStageFlags, vk::AccessFlags),
) {
    shared.calls.commands.fetch_add(1, Relaxed);
    let barrier = [vk::MemoryBarrier::default().src_access_mask(written).dst_access_mask(seen)];
    let none = vk::DependencyFlags::empty();
    // SAFETY: the command buffer is being recorded, and its owner is locked.
    unsafe { shared.device.cmd_pipeline_barrier(command, from, to, none, &barrier, &[], &[]) };
}

/// A copy of bytes from one place to another.
pub fn record_copy(
    shared: &Shared,
    command: vk::CommandBuffer,
    (from, from_at): (vk::Buffer, u64),
    (to, to_at): (vk::Buffer, u64),
    bytes: u64,
) {
    shared.calls.commands.fetch_add(1, Relaxed);
    let region = [vk::BufferCopy { src_offset: from_at, dst_offset: to_at, size: bytes }];
    // SAFETY: the command buffer is being recorded, and its owner is locked; both ranges are in
    // their buffers, which stay alive until the commands are done, or as long as they are kept.
    unsafe { shared.device.cmd_copy_buffer(command, from, to, &region) };
}
