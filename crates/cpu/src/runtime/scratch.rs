//! Scratch buffers, kept by each thread for packed operands and accumulators: fresh pages cost more
//! than packing into them.

use elinvar_core::{Element, HostVec, Result};
use std::cell::RefCell;
use std::thread::LocalKey;

/// Buffers that wait for their next use.
pub(crate) type ScratchPool<T> = RefCell<Vec<HostVec<T>>>;

/// f32 or f64: elements of scratch buffers.
pub(crate) trait ScratchElement: Element {
    /// The buffers of this thread.
    fn scratch_pool() -> &'static LocalKey<ScratchPool<Self>>;
}

impl ScratchElement for f32 {
    fn scratch_pool() -> &'static LocalKey<ScratchPool<f32>> {
        thread_local! { static POOL: ScratchPool<f32> = const { ScratchPool::new(Vec::new()) } }
        &POOL
    }
}

impl ScratchElement for f64 {
    fn scratch_pool() -> &'static LocalKey<ScratchPool<f64>> {
        thread_local! { static POOL: ScratchPool<f64> = const { ScratchPool::new(Vec::new()) } }
        &POOL
    }
}

/// Larger buffers (in elements) go back to the system.
const MAX_KEPT_ELEMENTS: usize = 4 << 20;
/// So many buffers are kept: a shared block, and two for a task.
const MAX_KEPT_BUFFERS: usize = 3;

/// A buffer of `len` elements with anything in them. It is taken off the shelf for its time, so a
/// thread that does another's work while it waits for its own finds another one.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn scratch<T: ScratchElement, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let mut buffer = take_buffer::<T>(len)?;
    let result = f(&mut buffer[..len]);
    return_buffer(buffer);
    Ok(result)
}

/// A buffer of at least `len` elements, which begins with a cache line.
fn take_buffer<T: ScratchElement>(len: usize) -> Result<HostVec<T>> {
    let waiting = T::scratch_pool().with_borrow_mut(|scratch_pool| {
        let fits = (0..scratch_pool.len())
            .filter(|&i| scratch_pool[i].len() >= len)
            .min_by_key(|&i| scratch_pool[i].len());
        fits.map(|i| scratch_pool.swap_remove(i))
    });
    if let Some(buffer) = waiting {
        return Ok(buffer);
    }
    let mut buffer = HostVec::with_capacity(len)?;
    buffer.resize(len, T::ZERO);
    Ok(buffer)
}

/// Puts a buffer on the shelf, and takes the smallest off if there are too many.
fn return_buffer<T: ScratchElement>(buffer: HostVec<T>) {
    if buffer.len() > MAX_KEPT_ELEMENTS {
        return;
    }
    T::scratch_pool().with_borrow_mut(|scratch_pool| {
        scratch_pool.push(buffer);
        if scratch_pool.len() > MAX_KEPT_BUFFERS
            && let Some(i) = (0..scratch_pool.len()).min_by_key(|&i| scratch_pool[i].len())
        {
            scratch_pool.swap_remove(i);
        }
    });
}
