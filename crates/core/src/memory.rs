//! What a device tells about its memory.

use std::fmt;

/// How much memory a device's tensors take. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Held by tensors, and by what is computed for them.
    pub in_use: u64,
    /// The largest that `in_use` ever was.
    pub peak: u64,
    /// Kept for the next tensors; given back to the system when it is needed there.
    pub cached: u64,
    /// What `in_use` may not exceed.
    pub limit: Option<u64>,
    /// How often a large piece of memory came from the system.
    pub from_system: u64,
    /// How often a large piece of memory came from the cache.
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
