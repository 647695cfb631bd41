//! Device memory for tensors. Where the driver can, it is allocated and freed in the stream's order
//! (cuMemAllocAsync), without waiting.

use super::device::Shared;
use super::functions::Address;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory for tensors.
pub struct Memory {
    shared: Arc<Shared>,
    pub(super) at: Address,
    bytes: u64,
}

impl Memory {
    /// So many bytes, on the device.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>, bytes: u64) -> Result<Memory> {
        let info = &shared.physical.info;
        if bytes > info.largest {
            return Err(Error::memory(format!(
                "cuda: a piece of {bytes} bytes, and {} has {}",
                info.name, info.memory
            )));
        }
        let at = allocate(shared, bytes).or_else(|e| {
            // What was dropped may still wait for work that is not done.
            shared.wait()?;
            allocate(shared, bytes).map_err(|_| e)
        })?;
        Ok(Memory { shared: shared.clone(), at, bytes })
    }
}

/// An address with so many bytes behind it.
///
/// # Errors
/// `OutOfMemory`.
pub fn allocate(shared: &Shared, bytes: u64) -> Result<Address> {
    shared.enter()?;
    let (t, mut at) = (&shared.api.table, 0);
    // SAFETY: the place for the result is valid, and the stream belongs to this device. What is
    // allocated in the stream's order is used in it only.
    let made = unsafe {
        match t.allocate_async.filter(|_| shared.pools()) {
            Some(allocate) => allocate(&raw mut at, bytes.max(1) as usize, shared.stream),
            None => (t.allocate)(&raw mut at, bytes.max(1) as usize),
        }
    };
    shared.api.check(made, || format!("{bytes} bytes of memory"))?;
    Ok(at)
}

/// Gives memory back, behind all work that was given to the stream.
pub fn free(shared: &Shared, at: Address) {
    // What goes wrong here has gone wrong before, and was reported by a wait.
    if shared.enter().is_err() {
        return;
    }
    let t = &shared.api.table;
    // SAFETY: the address was allocated by this device, and no later work of the stream uses it.
    // Without an order, the stream is waited for first.
    unsafe {
        match t.free_async.filter(|_| shared.pools()) {
            Some(free) => {
                free(at, shared.stream);
            }
            None => {
                (t.wait_stream)(shared.stream);
                (t.free)(at);
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        free(&self.shared, self.at);
    }
}
