//! Pinned memory of a caller, and copies from and to it without a wait.
//!
//! A copy has the memory until it is done, so that the host cannot look at it meanwhile. A copy
//! that is forgotten (`std::mem::forget`) keeps it for ever.

use super::device::Shared;
use super::memory::Chunk;
use crate::Slice;
use crate::submitted::Submitted;
use crate::vulkan::Vulkan;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory that host and device see.
pub struct PinnedMemory {
    shared: Arc<Shared>,
    chunk: Chunk,
    /// Bytes that the caller asked for; a buffer has one at least.
    bytes: usize,
}

impl PinnedMemory {
    /// So many bytes, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>, bytes: usize) -> Result<PinnedMemory> {
        // Memory that is good for reading is good enough for writing.
        let mut chunk = shared.chunk((bytes as u64).next_multiple_of(4).max(4), shared.types.down)?;
        chunk.clear();
        Ok(PinnedMemory { shared: shared.clone(), chunk, bytes })
    }
    fn is_of(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        Err(Error::argument(format!(
            "vulkan: pinned memory of {}, and the copy is of another device",
            self.shared.physical.info.name
        )))
    }
}

impl AsRef<[u8]> for PinnedMemory {
    fn as_ref(&self) -> &[u8] {
        &self.chunk.as_slice()[..self.bytes]
    }
}

impl AsMut<[u8]> for PinnedMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.chunk.as_mut_slice()[..self.bytes]
    }
}

impl fmt::Debug for PinnedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedMemory({} bytes)", self.bytes)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // A copy that failed may be in a batch that is not done.
        self.shared.queue().bury_memory(&self.shared, self.chunk.raw);
    }
}

impl Submitted for PinnedMemory {
    fn wait_for(&self, submission: u64) -> Result<()> {
        self.shared.wait_for(submission)
    }
}

/// A copy that is under way.
pub type Transfer = crate::submitted::Transfer<PinnedMemory>;

impl Shared {
    /// Copies as many bytes as the target has from pinned memory.
    ///
    /// # Errors
    /// `InvalidArgument` if the memory is another device's; `OutOfMemory`, `DeviceLost`.
    pub fn upload(self: &Arc<Self>, from: PinnedMemory, to: Slice<'_, Vulkan>) -> Result<Transfer> {
        assert!(to.len <= from.bytes as u64, "what is copied is there");
        from.is_of(self)?;
        let number = match to.len {
            0 => 0,
            _ => self.queue().upload_from(self, &from.chunk, to)?,
        };
        Ok(Transfer::new(from, number))
    }
    /// Copies memory to pinned memory.
    ///
    /// # Errors
    /// As [`Shared::upload`].
    pub fn download(self: &Arc<Self>, from: Slice<'_, Vulkan>, to: PinnedMemory) -> Result<Transfer> {
        assert!(from.len <= to.bytes as u64, "what is copied fits");
        to.is_of(self)?;
        let number = match from.len {
            0 => 0,
            _ => self.queue().download_to(self, from, &to.chunk)?,
        };
        Ok(Transfer::new(to, number))
    }
}
