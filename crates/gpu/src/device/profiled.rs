//! What a profile is told of a device: each launch, each product of a vendor's library, each copy.
//! All that is given to the queue passes here.

use super::{GpuDevice, OpenDevice};
use crate::timeline::Timed;
use elinvar_core::Result;
use elinvar_core::profile::{self, Event, Kind, Source};
use elinvar_driver::{Call, Driver, Slice};
use std::sync::{Arc, Weak};

impl<D: Driver> OpenDevice<D> {
    /// Gives something to the queue, and tells a profile of it, if one is recorded.
    #[inline]
    pub(crate) fn timed<T>(
        self: &Arc<Self>,
        what: impl FnOnce() -> Timed,
        give: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        if !profile::is_on() {
            return give();
        }
        profile::memory(&self.timeline.name, self.pool.stats().in_use);
        let source = || Arc::downgrade(self) as Weak<dyn Source>;
        self.timeline.time(&self.driver, what(), source, give)
    }
    /// What a profile is told of a call.
    pub(super) fn told(&self, call: &Call<'_, D>) -> Timed {
        match call {
            Call::Launch { module, buffers, .. } => {
                Timed { kind: Kind::Kernel, name: self.timeline.name_of(*module), bytes: sum(buffers) }
            }
            Call::Multiply { operands, .. } => {
                Timed { kind: Kind::Kernel, name: "multiply".into(), bytes: sum(operands) }
            }
            Call::Copy { to, .. } => Timed { kind: Kind::Copy, name: "copy".into(), bytes: 2 * to.len },
        }
    }
}

impl<D: Driver> GpuDevice<D> {
    /// Writes bytes of the host to memory.
    pub(crate) fn write(&self, to: Slice<'_, D>, bytes: &[u8]) -> Result<()> {
        let o = self.opened()?;
        let what = || Timed { kind: Kind::Copy, name: "write".into(), bytes: to.len };
        o.timed(what, &mut || o.driver.write(to, bytes))
    }
    /// Reads bytes of memory; waits for them.
    pub(crate) fn read(&self, from: Slice<'_, D>, bytes: &mut [u8]) -> Result<()> {
        let o = self.opened()?;
        let what = || Timed { kind: Kind::Copy, name: "read".into(), bytes: from.len };
        o.timed(what, &mut || o.driver.read(from, bytes))
    }
    /// Copies from another device; `false` if there is no way.
    pub(crate) fn receive(&self, other: &Self, from: Slice<'_, D>, to: Slice<'_, D>) -> Result<bool> {
        let (o, other) = (self.opened()?, other.opened()?);
        let what = || Timed { kind: Kind::Copy, name: "receive".into(), bytes: to.len };
        o.timed(what, &mut || o.driver.receive(&other.driver, from, to))
    }
}

impl<D: Driver> Source for OpenDevice<D> {
    fn events(&self) -> Vec<Event> {
        self.timeline.events(&self.driver)
    }
}

/// Bytes of pieces of memory.
fn sum<D: Driver>(all: &[Slice<'_, D>]) -> u64 {
    all.iter().map(|s| s.len).sum()
}
