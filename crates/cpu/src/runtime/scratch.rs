//! Scratch buffers, kept by each thread for packed operands and accumulators: fresh pages cost more
//! than packing into them.

use super::plan::{SCRATCH_MAX_KEPT_BUFFERS, SCRATCH_MAX_KEPT_ELEMENTS};
use elinvar_core::{Element, HostData, HostVec, Result};
use std::cell::RefCell;

thread_local! {
    /// Buffers that wait for their next use.
    static POOL: RefCell<Vec<HostData>> = const { RefCell::new(Vec::new()) }
}

/// A buffer of `len` elements with anything in them. It is taken out of the pool for its time, so a
/// thread that does another's work while it waits for its own finds another one.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn scratch<T: Element, R>(len: usize, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
    let mut buffer = take_buffer::<T>(len)?;
    let result = f(&mut buffer[..len]);
    return_buffer(buffer);
    Ok(result)
}

/// The shortest of the buffers of a type that have at least `len` elements.
fn shortest(pool: &[HostData], is_of: impl Fn(&HostData) -> bool, len: usize) -> Option<usize> {
    let fits = (0..pool.len()).filter(|&i| is_of(&pool[i]) && pool[i].len() >= len);
    fits.min_by_key(|&i| pool[i].len())
}

fn is_of<T: Element>(data: &HostData) -> bool {
    data.dtype() == T::DTYPE
}

/// A buffer of at least `len` elements, which begins with a cache line.
fn take_buffer<T: Element>(len: usize) -> Result<HostVec<T>> {
    let waiting = POOL.with_borrow_mut(|pool| shortest(pool, is_of::<T>, len).map(|i| pool.swap_remove(i)));
    if let Some(buffer) = waiting.and_then(T::unwrap) {
        return Ok(buffer);
    }
    let mut buffer = HostVec::with_capacity(len)?;
    buffer.resize(len, T::ZERO);
    Ok(buffer)
}

/// Puts a buffer into the pool, and drops the shortest if there are too many of its type.
fn return_buffer<T: Element>(buffer: HostVec<T>) {
    if buffer.len() > SCRATCH_MAX_KEPT_ELEMENTS {
        return;
    }
    POOL.with_borrow_mut(|pool| {
        pool.push(T::wrap(buffer));
        if pool.iter().filter(|data| is_of::<T>(data)).count() > SCRATCH_MAX_KEPT_BUFFERS
            && let Some(i) = shortest(pool, is_of::<T>, 0)
        {
            pool.swap_remove(i);
        }
    });
}
