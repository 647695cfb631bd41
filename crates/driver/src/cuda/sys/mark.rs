//! The device's clock: events with a time.

use super::device::Shared;
use super::table::Handle;
use elinvar_core::Result;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A place in the stream, whose time the device notes when it comes there.
pub struct Mark {
    shared: Arc<Shared>,
    event: Handle,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for Mark {}
// SAFETY: as above; the library's functions for events may be called from several threads.
unsafe impl Sync for Mark {}

impl Mark {
    /// A mark behind everything that was given to the stream until now.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>) -> Result<Mark> {
        shared.enter()?;
        let mut event = std::ptr::null_mut();
        // SAFETY: the place for the result is valid. 0: an event with a time.
        shared
            .api
            .check(unsafe { (shared.api.table.create_event)(&raw mut event, 0) }, || "a mark".into())?;
        let mark = Mark { shared: shared.clone(), event };
        let queue = shared.queue();
        // SAFETY: event and stream belong to this device.
        let recorded = unsafe { (shared.api.table.record_event)(event, shared.stream) };
        drop(queue);
        shared.api.check(recorded, || "marking a place in the stream".into())?;
        Ok(mark)
    }
    /// The time from this mark to another one.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn until(&self, to: &Mark) -> Result<Duration> {
        let s = &self.shared;
        s.enter()?;
        for mark in [self, to] {
            // SAFETY: the event belongs to this device, here and below.
            s.api.check(unsafe { (s.api.table.wait_event)(mark.event) }, || "waiting".into())?;
        }
        let mut milliseconds = 0f32;
        // SAFETY: the place for the result is valid.
        let read = unsafe { (s.api.table.between_events)(&raw mut milliseconds, self.event, to.event) };
        s.api.check(read, || "reading a mark".into())?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the event; the device may still come to it.
        unsafe { (self.shared.api.table.destroy_event)(self.event) };
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark({:?})", self.event)
    }
}
