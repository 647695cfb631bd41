//! WebGPU timestamps: the device's clock.

use super::device::Shared;
use super::memory::{Memory, Transfer};
use crate::Slice;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A place in the queue, whose time the device notes when it comes there.
pub struct Timestamp {
    shared: Arc<Shared>,
    /// A set of one time.
    set: wgpu::QuerySet,
}

impl Timestamp {
    /// A mark behind everything that was given to the queue until now.
    ///
    /// # Errors
    /// `Unsupported` if the device has no clock; `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>) -> Result<Timestamp> {
        if !shared.has_clock() {
            return Err(Error::unsupported(format!("webgpu: {} has no clock", shared.info.name)));
        }
        let descriptor = wgpu::QuerySetDescriptor { label: None, ty: wgpu::QueryType::Timestamp, count: 1 };
        let set = shared.scoped("making a mark", || shared.device.create_query_set(&descriptor))?;
        shared.queue().stamp(shared, &set);
        Ok(Timestamp { shared: shared.clone(), set })
    }

    /// What the clock showed.
    fn ticks(&self) -> Result<u64> {
        const BYTES: u64 = 8;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let buffer = super::memory::buffer(&self.shared, BYTES, usage)?;
        let memory = Memory { buffer, id: self.shared.next_id() };
        self.shared.queue().resolve(&self.shared, &self.set, &memory);
        let mut ticks = [0; BYTES as usize];
        let from = Slice { memory: &memory, offset: 0, len: BYTES };
        Transfer::of(&self.shared, from, Vec::new())?.read(&mut ticks)?;
        Ok(u64::from_le_bytes(ticks))
    }

    /// The time from this mark to another one.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn until(&self, to: &Timestamp) -> Result<Duration> {
        let period = f64::from(self.shared.raw_queue.get_timestamp_period());
        let ticks = to.ticks()?.saturating_sub(self.ticks()?);
        Ok(Duration::from_nanos((ticks as f64 * period) as u64))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Timestamp")
    }
}
