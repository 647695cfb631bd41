//! The way from this worker's device to those of all others.

use crate::transport::nccl::Nccl;
use elinvar_core::Result;
use elinvar_ops::Backend;
use elinvar_ops::backend::StreamObject;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The way between the devices of all workers.
pub(crate) struct DeviceLink {
    pub nccl: Nccl,
    /// The library and its version.
    pub name: String,
    /// This worker's, of whichever backend.
    pub device: Box<dyn Any + Send + Sync>,
    /// Its own order of work: the pass that computes gradients goes on beside it.
    pub stream: Arc<dyn StreamObject>,
}

impl fmt::Debug for DeviceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLink").field("nccl", &self.nccl).finish_non_exhaustive()
    }
}

impl DeviceLink {
    /// Leaves after an error, without waiting for others.
    pub fn abandon(self) {
        self.nccl.abandon();
    }
    /// Is it this device's?
    pub fn is_of<B: Backend>(&self, device: &B::Device) -> bool {
        self.device.downcast_ref::<B::Device>() == Some(device)
    }
    /// Runs `f` in the order of this way.
    pub fn scope<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let (mut f, mut y) = (Some(f), None);
        self.stream.scope(&mut || y = f.take().map(|f| f()));
        y.expect("a stream runs what it is given")
    }
}
