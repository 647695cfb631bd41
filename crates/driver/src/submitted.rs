//! Copies from and to pinned memory that are a submission of a queue.
//!
//! A copy has the memory until it is done, so that the host cannot look at it meanwhile.

use crate::PendingCopy;
use elinvar_core::Result;
use std::fmt;

/// Pinned memory of a device with a queue.
pub trait Submitted: Send + Sync + fmt::Debug + 'static {
    /// Waits until the submission is done.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn wait_for(&self, submission: u64) -> Result<()>;
}

/// A copy that is under way, and its submission.
#[derive(Debug)]
pub struct Transfer<P: Submitted> {
    /// It is taken out when the copy is done.
    memory: Option<P>,
    submission: u64,
}

impl<P: Submitted> Transfer<P> {
    pub(crate) fn new(memory: P, submission: u64) -> Transfer<P> {
        Transfer { memory: Some(memory), submission }
    }
}

impl<P: Submitted> PendingCopy<P> for Transfer<P> {
    fn wait(mut self) -> Result<P> {
        self.memory.as_ref().expect("it is taken out here alone").wait_for(self.submission)?;
        Ok(self.memory.take().expect("it is there"))
    }
}

impl<P: Submitted> Drop for Transfer<P> {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            // If waiting fails, the device is lost, and copies nothing any more.
            let _ = memory.wait_for(self.submission);
        }
    }
}
