//! Ways for messages: whole, in order from each worker to each other one.

pub mod local;
pub mod mpi;
pub mod nccl;
pub mod rendezvous;
pub mod tcp;

use elinvar_core::{Error, Result};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

/// Tells that a worker is gone, to any thread and without waiting.
pub type Watch = Arc<dyn Fn() -> Option<Error> + Send + Sync>;

/// A way to all other workers.
pub trait Transport: Debug + Send {
    /// Begins to send a message. Does not wait for the receiver.
    ///
    /// # Errors
    /// `Io` if the worker is gone.
    fn send(&mut self, to: usize, message: Vec<u8>) -> Result<()>;
    /// The next message of a worker.
    ///
    /// # Errors
    /// `Io` if the worker is gone, or sends nothing until then.
    fn receive(&mut self, from: usize, until: Instant) -> Result<Vec<u8>>;
    /// Waits until all that was sent has left this process's memory.
    ///
    /// # Errors
    /// `Io` if a worker is gone, or does not take it until then.
    fn flush(&mut self, until: Instant) -> Result<()>;
    /// The sum over all workers by the library's own means, in whatever order it adds. Only to
    /// compare times with.
    ///
    /// # Errors
    /// `Unsupported` if there is no library that sums.
    fn library_sum(&mut self, x: &mut [f32]) -> Result<()>;
    /// May it be called from any thread, one at a time, and not only from the one that made it?
    fn is_for_any_thread(&self) -> bool;
    /// What tells that a worker is gone, also while no message of it is waited for. One that has
    /// left without an error is not told of: what it has sent may still be on its way. A transport
    /// that learns of it only by messages tells nothing.
    fn watch(&self) -> Watch;
    /// Leaves without waiting for other workers: after an error, they may never come.
    fn abandon(self: Box<Self>);
}
