//! Events: places in a stream, to wait for or with the device's time.

use super::device::Shared;
use super::error::Status;
use super::functions::Handle;
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Flags of an event: one that notes the time, and one that does not, which is cheaper.
const TIMED: u32 = 0;
pub const UNTIMED: u32 = 2;
/// `CUDA_ERROR_NOT_READY`, `hipErrorNotReady`.
const NOT_READY: Status = 600;

/// A place in a stream, to be destroyed by its maker. Each function needs the device's
/// context to be the thread's.
pub struct RawEvent(Handle);

impl RawEvent {
    /// The place behind everything that was given to a stream of this device.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Shared, stream: Handle, flags: u32) -> Result<RawEvent> {
        let (t, mut raw) = (&shared.api.table, std::ptr::null_mut());
        // SAFETY: the place for the result is valid.
        shared.api.check(unsafe { (t.create_event)(&raw mut raw, flags) }, || "an event".into())?;
        let event = RawEvent(raw);
        // SAFETY: event and stream belong to this device.
        let marked = unsafe { (t.record_event)(raw, stream) };
        match shared.api.check(marked, || "marking a place in the stream".into()) {
            Ok(()) => Ok(event),
            Err(e) => {
                event.destroy(shared);
                Err(e)
            }
        }
    }
    /// What a stream, also of another device, is given from now on comes behind it.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`; `Unsupported` if the driver cannot do that.
    pub fn precedes(&self, shared: &Shared, stream: Handle) -> Result<()> {
        let Some(await_event) = shared.api.table.await_event else {
            return Err(Error::unsupported(shared.api.say("this driver does not order streams")));
        };
        // SAFETY: the stream and the event exist; an event may be of another context.
        shared.api.check(unsafe { await_event(stream, self.0, 0) }, || "ordering streams".into())
    }
    /// Destroys it; what waits for it still does.
    pub fn destroy(self, shared: &Shared) {
        // SAFETY: the event is not used any more; the driver keeps it until the stream has passed
        // it.
        unsafe { (shared.api.table.destroy_event)(self.0) };
    }
}

/// A place in a stream.
pub struct Event {
    shared: Arc<Shared>,
    raw: Option<RawEvent>,
}

// SAFETY: a handle that any thread may use once the context is its own.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    fn new(shared: &Arc<Shared>, stream: Handle, flags: u32) -> Result<Event> {
        shared.enter()?;
        Ok(Event { shared: shared.clone(), raw: Some(RawEvent::new(shared, stream, flags)?) })
    }
    /// The place behind everything that was given to a stream of this device.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn untimed(shared: &Arc<Shared>, stream: Handle) -> Result<Event> {
        Event::new(shared, stream, UNTIMED)
    }
    fn raw(&self) -> &RawEvent {
        self.raw.as_ref().expect("it is taken out when it is dropped")
    }
    /// What a stream, also of another device, is given from now on comes behind it.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`; `Unsupported` if the driver cannot do that.
    pub fn precedes(&self, shared: &Shared, stream: Handle) -> Result<()> {
        shared.enter()?;
        self.raw().precedes(shared, stream)
    }
    /// Did the device come here?
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn reached(&self) -> Result<bool> {
        self.shared.enter()?;
        let api = self.shared.api;
        // SAFETY: the event belongs to this device.
        match unsafe { (api.table.query_event)(self.raw().0) } {
            NOT_READY => Ok(false),
            status => api.check(status, || "asking for an event".into()).map(|()| true),
        }
    }
    /// Waits until the device comes here.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn wait(&self) -> Result<()> {
        self.shared.enter()?;
        let api = self.shared.api;
        // SAFETY: the event belongs to this device.
        api.check(unsafe { (api.table.wait_event)(self.raw().0) }, || "waiting".into())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Event")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let (Ok(()), Some(raw)) = (self.shared.enter(), self.raw.take()) {
            raw.destroy(&self.shared);
        }
    }
}

/// A place in a stream, with the device's time.
#[derive(Debug)]
pub struct Timestamp(Event);

impl Timestamp {
    /// A mark behind everything that was given to a stream of this device.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>, stream: Handle) -> Result<Timestamp> {
        Event::new(shared, stream, TIMED).map(Timestamp)
    }
    /// The time from this mark to a later one; waits for both.
    ///
    /// # Errors
    /// `DeviceLost`; `InvalidArgument` if the marks are of two devices.
    pub fn until(&self, to: &Timestamp) -> Result<Duration> {
        let (from, to) = (&self.0, &to.0);
        if !Arc::ptr_eq(&from.shared, &to.shared) {
            return Err(Error::argument(
                from.shared.api.say("the time between marks of two devices is not known"),
            ));
        }
        [from, to].into_iter().try_for_each(Event::wait)?;
        let (api, mut milliseconds) = (from.shared.api, 0f32);
        // SAFETY: the place for the result is valid, and both events were recorded.
        let asked = unsafe { (api.table.elapsed)(&raw mut milliseconds, from.raw().0, to.raw().0) };
        api.check(asked, || "the time between two marks".into())?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1000.0))
    }
}
