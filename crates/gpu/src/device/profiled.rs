//! What a profile is told of a device: each launch, each product of a vendor's library, each copy.
//! All that is given to a queue passes here.

use super::OpenDevice;
use crate::queues::Queue;
use crate::timeline::Timed;
use elinvar_core::Result;
use elinvar_core::profile::{self, Event, Kind, Source};
use elinvar_driver::{Call, Driver, Slice};
use std::sync::{Arc, Weak};

impl<D: Driver> OpenDevice<D> {
    /// Gives something to a queue, and tells a profile of it, if one is recorded.
    #[inline]
    pub(crate) fn timed<T>(
        self: &Arc<Self>,
        queue: &Queue<D>,
        what: impl FnOnce() -> Timed,
        give: &mut dyn FnMut(&D) -> Result<T>,
    ) -> Result<T> {
        let driver = queue.driver(self);
        if !profile::is_on() {
            return give(driver);
        }
        profile::memory(&self.timeline.name, self.pool.stats().in_use);
        let source = || Arc::downgrade(self) as Weak<dyn Source>;
        self.timeline.time((driver, queue.number()), what(), source, give)
    }
    /// What a profile is told of a call.
    pub(crate) fn told(&self, call: &Call<'_, D>) -> Timed {
        match call {
            Call::Launch { module, buffers, .. } => {
                Timed { kind: Kind::Kernel, name: self.timeline.name_of(*module), bytes: sum(buffers) }
            }
            Call::Multiply { operands, .. } => {
                Timed { kind: Kind::Kernel, name: "multiply".into(), bytes: sum(operands) }
            }
            Call::Copy { to, .. } => Timed::copy("copy", 2 * to.len),
        }
    }
}

impl<D: Driver> Source for OpenDevice<D> {
    fn events(&self) -> Vec<Event> {
        let queues = self.all_queues();
        let drivers: Vec<&D> = queues.iter().map(|q| q.driver(self)).collect();
        self.timeline.events(&drivers)
    }
}

/// Bytes of pieces of memory.
fn sum<D: Driver>(all: &[Slice<'_, D>]) -> u64 {
    all.iter().map(|s| s.len).sum()
}
