//! A device's queue as libraries of its vendor know it, to which they give work themselves.

use crate::Result;

/// A queue that is lent to another library for a call: no one else gives it work meanwhile, and the
/// device is the calling thread's.
#[derive(Clone, Copy, Debug)]
pub struct NativeQueue<'a> {
    /// The driver's name: the word before the number in a device's name.
    pub driver: &'static str,
    /// The queue's handle: a `CUstream` of CUDA.
    pub stream: usize,
    /// Where the bytes are that are read and written, as the borrower has asked for them. They are
    /// there until the queue has done what it is given in this call; those of what is written, and
    /// of what is read and is contiguous, as long as the borrower keeps the arrays that have them.
    pub addresses: &'a [u64],
    /// Can other processes be given this memory by the vendor's means? CUDA's
    /// `cuIpcGetMemHandle` refuses what was allocated in a stream's order.
    pub is_shareable: bool,
}

/// What gives work to a lent queue.
pub type NativeWork<'w> = &'w mut dyn FnMut(NativeQueue<'_>) -> Result<()>;
