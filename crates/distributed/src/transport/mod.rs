//! Ways for messages: whole, in order from each worker to each other one.

pub mod local;
pub mod mpi;
pub mod rendezvous;
pub mod tcp;

use elinvar_core::Result;
use std::fmt::Debug;
use std::time::Instant;

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
    /// Leaves without waiting for other workers: after an error, they may never come.
    fn abandon(self: Box<Self>);
}
