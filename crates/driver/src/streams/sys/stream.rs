//! Streams of a device, and what orders them.

use super::api::Api;
use super::device::Shared;
use super::event::{Event, RawEvent, Timestamp, UNTIMED};
use super::functions::Handle;
use super::memory::Memory;
use super::queue::Queue;
use elinvar_core::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stream that does not wait for the one that has no name.
const NON_BLOCKING: u32 = 1;

/// A stream, and what is needed to give work to it.
pub struct Stream {
    pub(super) raw: Handle,
    queue: Mutex<Queue>,
}

/// A stream of the calling thread's context.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`.
pub(super) fn create(api: &Api, what: impl Fn() -> String) -> Result<Handle> {
    let mut raw = std::ptr::null_mut();
    // SAFETY: the place for the result is valid.
    api.check(unsafe { (api.table.create_stream)(&raw mut raw, NON_BLOCKING) }, what)?;
    Ok(raw)
}

/// Destroys a stream that has nothing to do.
pub(super) fn destroy(shared: &Shared, raw: Handle) {
    // SAFETY: the stream was made by this device, and is not used any more.
    unsafe { (shared.api.table.destroy_stream)(raw) };
}

impl Stream {
    pub(super) fn new(raw: Handle) -> Stream {
        Stream { raw, queue: Mutex::new(Queue::new(raw)) }
    }
    /// The queue, locked. Nothing that holds its device may be dropped meanwhile.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic inside leaves at worst work that was not given to the stream.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The place behind everything that was given to it.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn record(&self, shared: &Arc<Shared>) -> Result<Event> {
        Event::untimed(shared, self.raw)
    }
    /// The same, with the device's time.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn mark(&self, shared: &Arc<Shared>) -> Result<Timestamp> {
        Timestamp::new(shared, self.raw)
    }
    /// What it is given from now on comes behind an event.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`; `Unsupported` if the driver cannot order streams.
    pub fn after(&self, shared: &Shared, event: &Event) -> Result<()> {
        event.precedes(shared, self.raw)
    }
    /// Memory, in its order.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn allocate(&self, shared: &Arc<Shared>, bytes: u64) -> Result<Memory> {
        Memory::new(shared, self.raw, bytes)
    }
    /// Waits for everything that it was given.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait(&self, shared: &Shared) -> Result<()> {
        shared.wait(self.raw)
    }
    /// Destroys the stream, which has nothing to do and is not used any more.
    pub(super) fn destroy(&self, shared: &Shared) {
        let queue = std::mem::replace(&mut *self.queue(), Queue::new(self.raw));
        queue.destroy(shared);
        destroy(shared, self.raw);
    }
}

/// A stream beside the device's first. It waits for its work when it is dropped.
pub struct OtherStream {
    shared: Arc<Shared>,
    stream: Stream,
}

// SAFETY: a handle that any thread may use once the context is its own.
unsafe impl Send for OtherStream {}
// SAFETY: as above; work is given to it under its queue's lock.
unsafe impl Sync for OtherStream {}

impl OtherStream {
    /// One more. `None` if the driver cannot order streams.
    ///
    /// # Errors
    /// `OutOfMemory`, `DeviceLost`.
    pub fn new(shared: &Arc<Shared>) -> Result<Option<OtherStream>> {
        if shared.api.table.await_event.is_none() {
            return Ok(None);
        }
        shared.enter()?;
        let create = || create(shared.api, || "a stream".into());
        let mut others = shared.others();
        if others.frees.is_none() {
            others.frees = Some(create()?);
        }
        let stream = Stream::new(create()?);
        others.streams.push(stream.raw);
        drop(others);
        Ok(Some(OtherStream { shared: shared.clone(), stream }))
    }
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl Drop for OtherStream {
    fn drop(&mut self) {
        // An error was reported by a wait.
        let _ = self.shared.wait(self.stream.raw);
        self.shared.others().streams.retain(|&s| s != self.stream.raw);
        // What was given to another stream waits at most for events of this one, which are there.
        self.stream.destroy(&self.shared);
    }
}

/// What a stream is given from now on comes behind what another was given until now. The device's
/// context is the thread's.
///
/// # Errors
/// `OutOfMemory`, `DeviceLost`; `Unsupported` if the driver cannot order streams.
pub(super) fn order(shared: &Shared, before: Handle, after: Handle) -> Result<()> {
    let event = RawEvent::new(shared, before, UNTIMED)?;
    let ordered = event.precedes(shared, after);
    event.destroy(shared);
    ordered
}
