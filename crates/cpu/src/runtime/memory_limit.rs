//! The limit of tensor memory: one for all CPU devices of a process, as their memory is.
//!
//! How it can be wrong: two devices that are built with different limits. The second is refused;
//! what is meant for all is set by [`set`].

use super::memory::in_use;
use elinvar_core::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// `u64::MAX`: none.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
/// The limit that a device was built with, until another is set for all.
static CLAIMED: Mutex<Option<u64>> = Mutex::new(None);

/// The limit, if there is one.
#[inline]
pub(crate) fn bytes() -> Option<u64> {
    Some(LIMIT.load(Relaxed)).filter(|limit| *limit != u64::MAX)
}

/// May so many bytes more be in use?
///
/// # Errors
/// `OutOfMemory` if the limit does not allow them.
#[inline]
pub(super) fn check(size: u64) -> Result<()> {
    bytes().map_or(Ok(()), |limit| check_against(size, limit))
}

fn check_against(size: u64, limit: u64) -> Result<()> {
    let in_use = in_use();
    if in_use.saturating_add(size) > limit {
        return Err(Error::memory(format!(
            "out of memory: {size} bytes more than the {in_use} in use are over the limit of {limit}"
        )));
    }
    Ok(())
}

/// Sets the limit for all devices.
pub(crate) fn set(limit: Option<u64>) {
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    *claimed = None;
    LIMIT.store(limit.unwrap_or(u64::MAX), Relaxed);
}

/// Sets the limit unless there is one.
pub(crate) fn set_if_none(limit: u64) {
    let _claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    // What the program has set stays.
    let _ = LIMIT.compare_exchange(u64::MAX, limit, Relaxed, Relaxed);
}

/// Sets the limit for a device that is built with it.
///
/// # Errors
/// `InvalidArgument` if a device was built with another.
pub(crate) fn claim(limit: u64) -> Result<()> {
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    match *claimed {
        Some(other) if other != limit => Err(Error::argument(format!(
            "cpu: memory_limit is {limit} bytes, and a device was built with {other}; the processor's devices share \
             one memory, whose limit `set_memory_limit` changes for all of them"
        ))),
        Some(_) | None => {
            *claimed = Some(limit);
            LIMIT.store(limit, Relaxed);
            Ok(())
        }
    }
}
