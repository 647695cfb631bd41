//! Ways for messages: whole, in order from each worker to each other one.

pub mod local;
pub mod mpi;
pub mod nccl;
pub mod rendezvous;
pub mod tcp;

use elinvar_core::{Error, Result};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

/// Tells that a worker is gone, to any thread and without waiting.
pub type Watch = Arc<dyn Fn() -> Option<Error> + Send + Sync>;

/// What keeps memory as it is while others read or write it.
pub type Kept = Arc<dyn Any + Send + Sync>;

/// Bytes for another worker, or from it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "nothing is sent from devices there"))]
pub struct Piece {
    pub worker: usize,
    pub bytes: usize,
}

/// Memory of a device that is sent to other workers, and that what they send is written to.
#[cfg_attr(not(unix), allow(dead_code, reason = "as above"))]
pub struct Swap<'s> {
    pub sends: &'s [Piece],
    pub receives: &'s [Piece],
    /// Where they begin: first what is sent.
    pub addresses: &'s [u64],
    pub kept: Kept,
}

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
    /// Does it send and receive memory of devices of this driver, by its addresses?
    ///
    /// # Errors
    /// `Unsupported` if not, with the reason.
    fn takes_memory_of(&self, driver: &str) -> Result<()> {
        Err(Error::unsupported(format!(
            "distributed: MPI alone takes addresses of devices of {driver}, and these workers' messages go by other means"
        )))
    }
    /// Sends and receives memory of a device that it takes. Pieces of no bytes are left out; those
    /// of one worker come in the order in which it sends them. All of it is done when this returns,
    /// and after an error what is not done keeps its memory for ever.
    ///
    /// # Errors
    /// `Io` if a worker is gone, does not send or take until then, or sends another number of
    /// bytes; `Unsupported` if no such memory is taken.
    ///
    /// # Safety
    /// There are as many addresses as pieces, each with as many bytes as its piece behind it, in
    /// memory of the thread's device, which is of a driver that is taken. Nothing else writes what
    /// is sent, nor touches what is received, as long as `kept` is there.
    #[allow(unsafe_code)]
    unsafe fn swap_memory(&mut self, _: Swap<'_>, _: Instant) -> Result<()> {
        Err(Error::unsupported("distributed: these workers' messages are sent from host memory"))
    }
    /// May it be called from any thread, one at a time, and not only from the one that made it?
    fn is_for_any_thread(&self) -> bool;
    /// What tells that a worker is gone, also while no message of it is waited for. One that has
    /// left without an error is not told of: what it has sent may still be on its way. A transport
    /// that learns of it only by messages tells nothing.
    fn watch(&self) -> Watch;
    /// Leaves without waiting for other workers: after an error, they may never come.
    fn abandon(self: Box<Self>);
}
