//! Metal timestamps: when the device was done with a command buffer.

use super::queue::Submission;
use super::shared::Shared;
use elinvar_core::Result;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A place in the queue: behind the last submission of those that were made until then.
pub struct Timestamp {
    shared: Arc<Shared>,
    submission: Arc<Submission>,
}

impl Timestamp {
    /// A mark behind everything that was given to the queue until now, which is submitted.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    pub fn new(shared: &Arc<Shared>) -> Result<Timestamp> {
        let submission = shared.queue().mark(shared)?;
        Ok(Timestamp { shared: shared.clone(), submission })
    }
    /// What the clock showed, in seconds.
    fn seconds(&self) -> Result<f64> {
        self.shared.wait_for(self.submission.number)?;
        Ok(*self.submission.end.get().expect("it is noted before the wait is over"))
    }
    /// The time from this mark to another one.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn until(&self, to: &Timestamp) -> Result<Duration> {
        let seconds = to.seconds()? - self.seconds()?;
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({})", self.submission.number)
    }
}
