//! Calls that are kept: one primary command buffer, recorded once with its barriers, descriptor
//! sets and push constants, and submitted for each replay together with what the queue was given
//! before.
//!
//! It is recorded for simultaneous use, so a replay need not wait for the one before it: the host
//! may be several ahead. Their order on the device is that of the queue: the commands begin with a
//! barrier behind all launches and copies that were submitted before, and end with one before all
//! that come. What the commands refer to is the caller's (modules, memory) or is in the graph (the
//! numbers of launches, what a launch that is cut hands over), and goes no earlier than the last
//! replay is done.
//!
//! How it can be wrong: what a call refers to and that changes or goes between two replays. A pool
//! of command buffers belongs to one graph, so that recording takes no lock of the queue.

use super::batch::{Batch, binding, order, record_copy, touch, work_barrier};
use super::device::Shared;
use super::error::error;
use super::memory::Memory;
use super::pipeline::Pipeline;
use crate::Vulkan;
use crate::loop_limit::{self, Parts};
use crate::touched::Touched;
use crate::{Call, CallGraph, Driver, Slice};
use ash::vk;
use elinvar_core::{Error, Result};
use elinvar_kernel::interp::Launch;
use std::fmt;
use std::sync::Arc;

/// Calls, ready to be made.
pub struct Graph {
    shared: Arc<Shared>,
    /// None before it was made, and when it is dropped.
    batch: Option<Batch>,
    pool: vk::CommandPool,
    calls: usize,
    /// The numbers of launches that are too many for parameters, and what those that are cut share.
    args: Option<Memory>,
    parts: Vec<Parts<Vulkan>>,
}

/// The numbers of all launches in one piece of memory, and where each launch's are.
fn args(device: &Vulkan, calls: &[Call<'_, Vulkan>]) -> Result<(Option<Memory>, Vec<u64>)> {
    let alignment = device.info().alignment as usize;
    let (mut all, mut places) = (Vec::new(), Vec::with_capacity(calls.len()));
    for call in calls {
        let given = match call {
            Call::Launch { args, .. } => args.unwrap_or(&[]),
            Call::Copy { .. } | Call::Multiply { .. } => &[],
        };
        all.resize(all.len().next_multiple_of(alignment), 0u8);
        places.push(all.len() as u64);
        all.extend_from_slice(given);
    }
    if all.is_empty() {
        return Ok((None, places));
    }
    all.resize(all.len().next_multiple_of(4), 0);
    let memory = device.allocate(all.len() as u64)?;
    device.write(Slice { memory: &memory, offset: 0, len: all.len() as u64 }, &all)?;
    Ok((Some(memory), places))
}

impl Graph {
    fn record(&mut self, device: &Vulkan, calls: &[Call<'_, Vulkan>]) -> Result<()> {
        let (args, places) = args(device, calls)?;
        self.args = args;
        let shared = self.shared.clone();
        let batch = self.batch.insert(Batch::new(&shared, self.pool)?);
        batch.begin(&shared, vk::CommandBufferUsageFlags::SIMULTANEOUS_USE)?;
        work_barrier(&shared, batch.command);
        let mut touched = Touched::default();
        for (call, place) in calls.iter().zip(places) {
            match call {
                Call::Launch { module, buffers, launch, args } => {
                    let bytes = args.map(|bytes| bytes.len() as u64);
                    let numbers = bytes.zip(self.args.as_ref());
                    let numbers = numbers.map(|(bytes, m)| binding(m.raw.buffer, place, bytes));
                    let mut start = |kernel: &Pipeline, buffers: &[Slice<'_, Vulkan>]| {
                        record_launch(&shared, batch, &mut touched, kernel, buffers, launch, numbers)
                    };
                    match loop_limit::parts(device, module, launch, *args)? {
                        None => start(&module.whole, buffers)?,
                        Some(parts) => {
                            parts.each(buffers, start)?;
                            self.parts.push(parts);
                        }
                    }
                }
                Call::Copy { from, to } => {
                    let touches = [touch(from, to.len, false), touch(to, to.len, true)];
                    order(&shared, batch.command, &mut touched, &touches);
                    let (a, b) = (from.memory.raw.buffer, to.memory.raw.buffer);
                    record_copy(&shared, batch.command, (a, from.offset), (b, to.offset), to.len);
                }
                Call::Multiply { product, .. } => {
                    return Err(Error::unsupported(format!("vulkan: no library computes {product:?}")));
                }
            }
        }
        work_barrier(&shared, batch.command);
        // SAFETY: the command buffer is being recorded, and this graph alone has its pool.
        unsafe { shared.device.end_command_buffer(batch.command) }
            .map_err(|e| error("recording commands that are kept", e))
    }
}

fn record_launch(
    shared: &Shared,
    batch: &mut Batch,
    touched: &mut Touched,
    kernel: &Pipeline,
    buffers: &[Slice<'_, Vulkan>],
    launch: &Launch,
    numbers: Option<vk::DescriptorBufferInfo>,
) -> Result<()> {
    let block = kernel.block(&launch.params)?;
    let (mut infos, touches) = kernel.bind(buffers);
    // They were written before the first replay, and do not change.
    infos.extend(numbers);
    assert_eq!(infos.len(), kernel.access.len(), "{kernel:?} gets as many buffers as it has");
    order(shared, batch.command, touched, &touches);
    batch.launch(shared, kernel, &infos, &block, launch.groups)
}

impl CallGraph<Vulkan> for Graph {
    fn capture(device: &Vulkan, calls: &[Call<'_, Vulkan>]) -> Result<Option<Graph>> {
        let shared = device.shared.clone();
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(shared.family);
        // SAFETY: the device is alive.
        let pool = unsafe { shared.device.create_command_pool(&info, None) }
            .map_err(|e| error("commands that are kept", e))?;
        let (args, parts) = (None, Vec::new());
        let mut graph = Graph { shared, batch: None, pool, calls: calls.len(), args, parts };
        graph.record(device, calls)?;
        Ok(Some(graph))
    }
    fn replay(&self, _: &Vulkan) -> Result<()> {
        let batch = self.batch.as_ref().expect("it was recorded");
        self.shared.queue().replay(&self.shared, batch.command)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} calls)", self.calls)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // What it refers to is dropped behind it.
        self.shared.queue().bury_commands(&self.shared, self.batch.take(), self.pool);
    }
}
