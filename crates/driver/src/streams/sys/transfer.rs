//! Pinned memory of a caller, and copies from and to it without a wait.
//!
//! A copy has the memory until it is done, so that the host cannot look at it meanwhile. A copy
//! that is forgotten (`std::mem::forget`) keeps it for ever.

use super::device::Shared;
use super::staging::Pinned;
use super::stream::Stream;
use crate::Slice;
use crate::streams::Streams;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory of the host that the device reaches.
pub struct PinnedMemory {
    shared: Arc<Shared>,
    /// It is taken out when it is dropped; nothing is there of no bytes.
    pinned: Option<Pinned>,
}

impl PinnedMemory {
    /// So many bytes, all 0.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>, bytes: usize) -> Result<PinnedMemory> {
        shared.enter()?;
        let pinned = match bytes {
            0 => None,
            bytes => {
                let mut pinned = Pinned::new(shared, bytes)?;
                pinned.clear();
                Some(pinned)
            }
        };
        Ok(PinnedMemory { shared: shared.clone(), pinned })
    }
    fn is_of(&self, shared: &Arc<Shared>) -> Result<()> {
        if Arc::ptr_eq(&self.shared, shared) {
            return Ok(());
        }
        Err(Error::argument(shared.api.say(format_args!(
            "pinned memory of {}, and the copy is of another device",
            self.shared.physical.info.name
        ))))
    }
}

impl AsRef<[u8]> for PinnedMemory {
    fn as_ref(&self) -> &[u8] {
        self.pinned.as_ref().map_or(&[], Pinned::as_slice)
    }
}

impl AsMut<[u8]> for PinnedMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        self.pinned.as_mut().map_or(&mut [], Pinned::as_mut_slice)
    }
}

impl fmt::Debug for PinnedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedMemory({} bytes)", self.as_ref().len())
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned.take() {
            // Where the context is gone, nothing can be given back.
            if self.shared.enter().is_ok() {
                pinned.destroy(&self.shared);
            }
        }
    }
}

/// A copy that is under way. Its memory's event is behind it.
#[derive(Debug)]
pub struct Transfer {
    /// It is taken out when the copy is done.
    memory: Option<PinnedMemory>,
}

impl Transfer {
    fn finish(&self) -> Result<()> {
        match self.memory.as_ref().and_then(|m| Some((&m.shared, m.pinned.as_ref()?))) {
            Some((shared, pinned)) => {
                shared.enter()?;
                pinned.wait(shared)
            }
            None => Ok(()),
        }
    }
}

impl crate::PendingCopy<PinnedMemory> for Transfer {
    fn wait(mut self) -> Result<PinnedMemory> {
        self.finish()?;
        Ok(self.memory.take().expect("it is taken out here alone"))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // If waiting fails, the device is lost, and copies nothing any more.
        let _ = self.finish();
    }
}

impl Stream {
    /// Copies as many bytes as the target has from pinned memory.
    ///
    /// # Errors
    /// `InvalidArgument` if the memory is another device's; `OutOfMemory`, `DeviceLost`.
    pub fn upload<D: Streams>(
        &self,
        shared: &Arc<Shared>,
        from: PinnedMemory,
        to: Slice<'_, D>,
    ) -> Result<Transfer> {
        assert!(to.len <= from.as_ref().len() as u64, "what is copied is there");
        self.transfer(shared, from, to.len, |at| {
            let to_at = to.memory.at + to.offset;
            // SAFETY: both have as many bytes; those of the host belong to the transfer until it is
            // done, and the target is given back behind this.
            unsafe { (shared.api.table.copy_up)(to_at, at.cast_const().cast(), to.len as usize, self.raw) }
        })
    }
    /// Copies memory to pinned memory.
    ///
    /// # Errors
    /// As [`Stream::upload`].
    pub fn download<D: Streams>(
        &self,
        shared: &Arc<Shared>,
        from: Slice<'_, D>,
        to: PinnedMemory,
    ) -> Result<Transfer> {
        assert!(from.len <= to.as_ref().len() as u64, "what is copied fits");
        self.transfer(shared, to, from.len, |at| {
            let from_at = from.memory.at + from.offset;
            // SAFETY: as above.
            unsafe { (shared.api.table.copy_down)(at.cast(), from_at, from.len as usize, self.raw) }
        })
    }
    fn transfer(
        &self,
        shared: &Arc<Shared>,
        memory: PinnedMemory,
        bytes: u64,
        copy: impl FnOnce(*mut u8) -> super::error::Status,
    ) -> Result<Transfer> {
        memory.is_of(shared)?;
        let Some(pinned) = memory.pinned.as_ref().filter(|_| bytes > 0) else {
            return Ok(Transfer { memory: Some(memory) });
        };
        let _queue = self.queue();
        shared.enter()?;
        let given = shared.api.check(copy(pinned.address(0)), || format!("copying {bytes} bytes"));
        if let Err(e) = given.and_then(|()| pinned.mark(shared, self.raw)) {
            // The copy may be under way. Where the device is lost, waiting fails at once.
            let _ = shared.wait(self.raw);
            return Err(e);
        }
        Ok(Transfer { memory: Some(memory) })
    }
}
