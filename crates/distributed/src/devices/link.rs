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
    pub way: Way,
    /// What it is, for a line of the log.
    pub name: String,
    /// This worker's, of whichever backend.
    pub device: Box<dyn Any + Send + Sync>,
    /// Its own order of work: the pass that computes gradients goes on beside it.
    pub stream: Arc<dyn StreamObject>,
}

/// By what.
#[derive(Debug)]
pub(crate) enum Way {
    /// NCCL, beside the transport.
    Nccl(Nccl),
    /// The transport itself, which is an MPI library.
    Mpi,
}

impl fmt::Debug for DeviceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLink").field("way", &self.way).finish_non_exhaustive()
    }
}

impl DeviceLink {
    /// Leaves after an error, without waiting for others.
    pub fn abandon(self) {
        match self.way {
            Way::Nccl(nccl) => nccl.abandon(),
            // The group's transport is abandoned by itself.
            Way::Mpi => {}
        }
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
