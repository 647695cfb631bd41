//! Vulkan timestamps: the device's clock.

use super::device::Shared;
use super::error::error;
use ash::vk;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A place in the queue, whose time the device notes when it comes there.
pub struct Timestamp {
    shared: Arc<Shared>,
    /// A pool of one time.
    pool: vk::QueryPool,
    /// The submission that it is in.
    number: u64,
}

impl Timestamp {
    /// A mark behind everything that was given to the queue until now. It is submitted with what
    /// follows, or when it is read.
    ///
    /// # Errors
    /// `Unsupported` if the queue has no clock; `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>) -> Result<Timestamp> {
        if shared.physical.clock.bits == 0 {
            return Err(Error::unsupported(format!("vulkan: {} has no clock", shared.physical.info.name)));
        }
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(1);
        // SAFETY: the device is alive.
        let pool =
            unsafe { shared.device.create_query_pool(&info, None) }.map_err(|e| error("making a mark", e))?;
        // From here on, what is dropped is destroyed when the submission is done.
        let mut mark = Timestamp { shared: shared.clone(), pool, number: 0 };
        mark.number = shared.queue().stamp(shared, pool)?;
        Ok(mark)
    }

    /// What the clock showed.
    fn ticks(&self) -> Result<u64> {
        self.shared.queue().submit_to(&self.shared, self.number)?;
        self.shared.wait_for(self.number)?;
        let mut ticks = [0u64];
        let flags = vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT;
        // SAFETY: the pool belongs to this device, and its one time has been written.
        unsafe { self.shared.device.get_query_pool_results(self.pool, 0, &mut ticks, flags) }
            .map_err(|e| error("reading a mark", e))?;
        Ok(ticks[0])
    }

    /// The time from this mark to another one.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn until(&self, to: &Timestamp) -> Result<Duration> {
        let clock = self.shared.physical.clock;
        let mask = u64::MAX >> (64 - clock.bits);
        // The clock may have started again from 0 between the two.
        let ticks = to.ticks()?.wrapping_sub(self.ticks()?) & mask;
        Ok(Duration::from_nanos((ticks as f64 * f64::from(clock.period)) as u64))
    }
}

impl Drop for Timestamp {
    fn drop(&mut self) {
        self.shared.queue().bury_query(&self.shared, self.pool);
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark({})", self.number)
    }
}
