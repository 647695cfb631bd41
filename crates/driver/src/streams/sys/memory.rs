//! Device memory for tensors. Where the driver can, it is allocated and freed in the stream's order
//! (`cuMemAllocAsync`, `hipMallocAsync`), without waiting.

use super::device::Shared;
use super::functions::{Address, Handle};
use super::stream::order;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Memory for tensors.
pub struct Memory {
    shared: Arc<Shared>,
    pub(crate) at: Address,
    bytes: u64,
}

impl Memory {
    /// So many bytes, on the device; for a stream, and for others behind what it was given until
    /// now.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>, stream: Handle, bytes: u64) -> Result<Memory> {
        let info = &shared.physical.info;
        if bytes > info.largest {
            return Err(Error::memory(
                shared
                    .api
                    .say(format_args!("a piece of {bytes} bytes, and {} has {}", info.name, info.largest)),
            ));
        }
        let at = allocate(shared, stream, bytes).or_else(|e| {
            // What was dropped may still wait for work that is not done.
            shared.wait_for_all()?;
            allocate(shared, stream, bytes).map_err(|_| e)
        })?;
        Ok(Memory { shared: shared.clone(), at, bytes })
    }
}

/// An address with so many bytes behind it, in a stream's order.
///
/// # Errors
/// `OutOfMemory`.
pub fn allocate(shared: &Shared, stream: Handle, bytes: u64) -> Result<Address> {
    shared.enter()?;
    let (t, mut at) = (&shared.api.table, 0);
    // SAFETY: the place for the result is valid, and the stream belongs to this device. Other
    // streams use what is allocated in this one's order only behind it.
    let made = unsafe {
        match t.allocate_async.filter(|_| shared.pools()) {
            Some(allocate) => allocate(&raw mut at, bytes.max(1) as usize, stream),
            None => (t.allocate)(&raw mut at, bytes.max(1) as usize),
        }
    };
    shared.api.check(made, || format!("{bytes} bytes of memory"))?;
    Ok(at)
}

/// Gives memory back that one stream alone has used, in its order.
pub fn free_in(shared: &Shared, stream: Handle, at: Address) {
    // What goes wrong here has gone wrong before, and was reported by a wait.
    if shared.enter().is_err() {
        return;
    }
    let t = &shared.api.table;
    // SAFETY: the address was allocated by this device, and no later work uses it. Without an
    // order, the stream is waited for first.
    unsafe {
        match t.free_async.filter(|_| shared.pools()) {
            Some(free) => {
                free(at, stream);
            }
            None => {
                (t.wait_stream)(stream);
                (t.free)(at);
            }
        }
    }
}

/// Gives memory back, behind all work that was given to any stream.
fn free(shared: &Shared, at: Address) {
    let others = shared.others();
    let first = shared.first().raw;
    let Some(frees) = others.frees else { return free_in(shared, first, at) };
    if shared.enter().is_err() {
        return;
    }
    // A stream of its own waits for them, so that none of them waits for another.
    let mut all = others.streams.iter().chain([&first]);
    if all.try_for_each(|&stream| order(shared, stream, frees)).is_err() {
        let t = &shared.api.table;
        // SAFETY: the streams belong to this device.
        others.streams.iter().chain([&first]).for_each(|&stream| unsafe {
            (t.wait_stream)(stream);
        });
    }
    free_in(shared, frees, at);
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
