//! Metal buffers for tensors, which the host sees, too.

use super::api::Buffer;
use super::shared::Shared;
use elinvar_core::{Error, Result};
use std::fmt;

/// Memory for tensors. Command buffers keep what they use, so it may be dropped at any time.
pub struct Memory {
    pub(super) buffer: Buffer,
    /// Numbers memory within its device.
    pub(super) id: u64,
    pub(super) bytes: u64,
}

impl Memory {
    /// So many bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, also beyond the device's limits.
    pub fn new(shared: &Shared, bytes: u64) -> Result<Memory> {
        let (name, largest) = (&shared.traits.name, shared.traits.largest);
        if bytes > largest {
            return Err(Error::memory(format!(
                "metal: a piece of {bytes} bytes, and {name} allows at most {largest} in one piece"
            )));
        }
        Ok(Memory { buffer: shared.allocate(bytes)?, id: shared.next_id(), bytes })
    }
    /// The same, for a copy; the queue is locked, so that work that is under way is not waited for.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn between(shared: &Shared, bytes: u64) -> Result<Memory> {
        let none = || Error::memory(format!("metal: {bytes} bytes for a copy"));
        Ok(Memory { buffer: shared.buffer(bytes).ok_or_else(none)?, id: shared.next_id(), bytes })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}
