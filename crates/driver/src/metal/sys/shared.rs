//! An opened Metal device: what everything that it made shares, and waiting for it.

use super::Traits;
use super::api::{Buffer, CommandQueue, Device};
use super::queue::Queue;
use crate::Slice;
use crate::metal::Metal;
use elinvar_core::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct Shared {
    pub device: Device,
    pub traits: Traits,
    /// Who waits for work waits for its command buffer, and not with this locked.
    queue: Mutex<Queue>,
    ids: AtomicU64,
}

impl Shared {
    /// # Errors
    /// `OutOfMemory` if there is no queue to be had.
    pub fn open(device: Device, traits: Traits) -> Result<Arc<Shared>> {
        let queue = CommandQueue::new(&device)
            .ok_or_else(|| Error::memory(format!("metal: {}: no command queue", traits.name)))?;
        let queue = Mutex::new(Queue::new(queue));
        Ok(Arc::new(Shared { device, traits, queue, ids: AtomicU64::new(1) }))
    }
    /// The queue, locked.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic inside leaves at worst work that is never submitted.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed)
    }
    /// A buffer of so many bytes; `None` if there is no room for it.
    pub fn buffer(&self, bytes: u64) -> Option<Buffer> {
        // Copies are of whole words, so there is room for the last one.
        self.device.buffer(bytes.next_multiple_of(16).max(16))
    }
    /// The same, after what was dropped is free.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost`.
    pub fn allocate(&self, bytes: u64) -> Result<Buffer> {
        if let Some(buffer) = self.buffer(bytes) {
            return Ok(buffer);
        }
        self.wait()?;
        self.buffer(bytes).ok_or_else(|| {
            Error::memory(format!(
                "metal: {bytes} bytes of memory: {} has no room for them",
                self.traits.name
            ))
        })
    }

    /// Submits what was recorded; gives the number of the last submission.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn submit(&self) -> Result<u64> {
        let mut queue = self.queue();
        queue.submit()?;
        Ok(queue.last())
    }
    /// Waits for everything.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn wait(&self) -> Result<()> {
        let last = self.submit()?;
        self.wait_for(last)
    }
    /// Is a submission done?
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn reached(&self, number: u64) -> Result<bool> {
        let mut queue = self.queue();
        queue.reap();
        queue.check()?;
        Ok(queue.done() >= number)
    }
    /// Waits for a submission and all before it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn wait_for(&self, number: u64) -> Result<()> {
        loop {
            let mut queue = self.queue();
            queue.reap();
            let Some(waited_for) = queue.under_way(number) else {
                // What became done since is noted, too.
                queue.reap();
                return queue.check();
            };
            // Others may give work meanwhile.
            drop(queue);
            waited_for.committed.wait();
        }
    }

    /// Reads memory in place, when nothing that was given to the queue until now is still to write
    /// it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn read(&self, from: Slice<'_, Metal>, bytes: &mut [u8]) -> Result<()> {
        let from = Slice { len: bytes.len() as u64, ..from };
        assert!(from.offset + from.len <= from.memory.bytes, "what is read is there");
        loop {
            let mut queue = self.queue();
            queue.check()?;
            let Some(writer) = queue.writer(&from)? else {
                queue.check()?;
                // SAFETY: the range was checked above. No work that was submitted is still to write
                // it, by `writer`, and none can be submitted, nor can another thread write it for
                // the host, while the queue is locked.
                unsafe { from.memory.buffer.read(from.offset, bytes) };
                return Ok(());
            };
            drop(queue);
            writer.committed.wait();
        }
    }
}
