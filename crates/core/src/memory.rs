//! Memory statistics of a device.

use std::fmt;

/// Memory of a device's tensors. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Held by tensors and by temporary buffers of ops.
    pub in_use: u64,
    /// The maximum of `in_use` so far.
    pub peak: u64,
    /// Cached for the next tensors; returned to the system when it needs the memory.
    pub cached: u64,
    /// The upper limit of `in_use`, if one is set.
    pub limit: Option<u64>,
    /// The number of large allocations that the system served.
    pub from_system: u64,
    /// The number of large allocations that the cache served.
    pub from_cache: u64,
}

impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "{:.1} MiB in use, {:.1} at most, {:.1} cached",
            mib(self.in_use),
            mib(self.peak),
            mib(self.cached)
        )?;
        match self.limit {
            Some(limit) => write!(f, ", limit {:.1}", mib(limit)),
            None => Ok(()),
        }
    }
}
