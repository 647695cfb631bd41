//! Memory for use in between, kept by each thread: freshly mapped pages cost more than what is packed into them.

use crate::gemm::Real;
use elinvar_core::{HostVec, Result};
use std::cell::RefCell;

/// Buffers that wait for their next use.
pub(crate) type Shelf<T> = RefCell<Vec<HostVec<T>>>;

/// Larger buffers (in elements) go back to the system.
const KEPT: usize = 4 << 20;
/// So many buffers are kept: a shared block, and two for a task.
const WAITING: usize = 3;

/// A buffer of `len` elements with anything in them. It is taken off the shelf for its time, so a thread that does
/// another's work while it waits for its own finds another one.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn scratch<T: Real, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let mut buffer = taken::<T>(len)?;
    let result = f(&mut buffer[..len]);
    put_back(buffer);
    Ok(result)
}

/// A buffer of at least `len` elements, which begins with a cache line.
fn taken<T: Real>(len: usize) -> Result<HostVec<T>> {
    let waiting = T::shelf().with_borrow_mut(|shelf| {
        let fits = (0..shelf.len()).filter(|&i| shelf[i].len() >= len).min_by_key(|&i| shelf[i].len());
        fits.map(|i| shelf.swap_remove(i))
    });
    if let Some(buffer) = waiting {
        return Ok(buffer);
    }
    let mut buffer = HostVec::with_capacity(len)?;
    buffer.resize(len, T::ZERO);
    Ok(buffer)
}

/// Puts a buffer on the shelf, and takes the smallest off if there are too many.
fn put_back<T: Real>(buffer: HostVec<T>) {
    if buffer.len() > KEPT {
        return;
    }
    T::shelf().with_borrow_mut(|shelf| {
        shelf.push(buffer);
        if shelf.len() > WAITING
            && let Some(i) = (0..shelf.len()).min_by_key(|&i| shelf[i].len())
        {
            shelf.swap_remove(i);
        }
    });
}
