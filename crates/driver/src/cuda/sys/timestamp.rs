//! CUDA events: places in the stream, with the device's time.

use super::device::Shared;
use super::functions::Handle;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A place in the stream.
pub struct Timestamp {
    shared: Arc<Shared>,
    event: Handle,
}

// SAFETY: a handle that any thread may use once the context is its own.
unsafe impl Send for Timestamp {}
// SAFETY: as above.
unsafe impl Sync for Timestamp {}

impl Timestamp {
    /// A mark behind everything that was given to the stream.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>) -> Result<Timestamp> {
        shared.enter()?;
        let (api, mut event) = (shared.api, std::ptr::null_mut());
        // SAFETY: the place for the result is valid. 0: an event that notes the time.
        api.check(unsafe { (api.table.create_event)(&raw mut event, 0) }, || "an event".into())?;
        let mark = Timestamp { shared: shared.clone(), event };
        // SAFETY: event and stream belong to this device.
        let marked = unsafe { (api.table.record_event)(event, shared.stream) };
        api.check(marked, || "marking a place in the stream".into())?;
        Ok(mark)
    }
    /// The event, for who waits for it in another stream.
    pub(super) fn event(&self) -> Handle {
        self.event
    }
    /// The time from this mark to a later one; waits for both.
    ///
    /// # Errors
    /// `DeviceLost`; `InvalidArgument` if the marks are of two devices.
    pub fn until(&self, to: &Timestamp) -> Result<Duration> {
        if !Arc::ptr_eq(&self.shared, &to.shared) {
            return Err(Error::argument("cuda: the time between marks of two devices is not known"));
        }
        self.shared.enter()?;
        let (api, mut milliseconds) = (self.shared.api, 0f32);
        for mark in [self, to] {
            // SAFETY: the event belongs to this device.
            api.check(unsafe { (api.table.wait_event)(mark.event) }, || "waiting".into())?;
        }
        // SAFETY: the place for the result is valid, and both events were recorded.
        let asked = unsafe { (api.table.elapsed)(&raw mut milliseconds, self.event, to.event) };
        api.check(asked, || "the time between two marks".into())?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1000.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mark")
    }
}

impl Drop for Timestamp {
    fn drop(&mut self) {
        if self.shared.enter().is_ok() {
            // SAFETY: the event is not used any more; the driver keeps it until the stream has
            // passed it.
            unsafe { (self.shared.api.table.destroy_event)(self.event) };
        }
    }
}
