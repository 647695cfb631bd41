//! Pinned memory of a caller, which is a buffer of its own, and copies from and to it without a
//! wait.
//!
//! A copy has the memory until it is done, so that the host cannot look at it meanwhile. The
//! command buffer keeps the Metal buffer, so that one that is dropped early is not reused.

use super::api::Buffer;
use super::shared::Shared;
use crate::Slice;
use crate::metal::Metal;
use crate::submitted::Submitted;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory that host and device see.
pub struct PinnedMemory {
    shared: Arc<Shared>,
    pub(super) buffer: Buffer,
    /// Numbers it among the device's memory.
    pub(super) id: u64,
    /// Bytes that the caller asked for.
    bytes: usize,
}

impl PinnedMemory {
    /// So many bytes, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>, bytes: usize) -> Result<PinnedMemory> {
        let buffer = shared.allocate(bytes as u64)?;
        let mut pinned = PinnedMemory { shared: shared.clone(), buffer, id: shared.next_id(), bytes };
        pinned.as_mut().fill(0);
        Ok(pinned)
    }
    fn is_of(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        let name = &self.shared.traits.name;
        Err(Error::argument(format!("metal: pinned memory of {name}, and the copy is of another device")))
    }
}

impl AsRef<[u8]> for PinnedMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer has as many bytes at least, to all of which Metal has given a value,
        // and lives as long as `self`. No one writes them while they are borrowed: a copy to them
        // has `self` by value, and the host needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.buffer.at(), self.bytes) }
    }
}

impl AsMut<[u8]> for PinnedMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one; a copy from them has `self` by value.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.at(), self.bytes) }
    }
}

impl fmt::Debug for PinnedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedMemory({} bytes)", self.bytes)
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
    pub fn upload(self: &Arc<Self>, from: PinnedMemory, to: Slice<'_, Metal>) -> Result<Transfer> {
        assert!(to.len <= from.bytes as u64, "what is copied is there");
        from.is_of(self)?;
        let number = self.queue().upload(&from, to)?;
        Ok(Transfer::new(from, number))
    }
    /// Copies memory to pinned memory.
    ///
    /// # Errors
    /// As [`Shared::upload`].
    pub fn download(self: &Arc<Self>, from: Slice<'_, Metal>, to: PinnedMemory) -> Result<Transfer> {
        assert!(from.len <= to.bytes as u64, "what is copied fits");
        to.is_of(self)?;
        let number = self.queue().download(from, &to)?;
        Ok(Transfer::new(to, number))
    }
}
