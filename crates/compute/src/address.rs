//! Handles that look like addresses.
//!
//! One counter gives all addresses of the process, and gives none twice: a pointer of another
//! backend, and one that was freed, is found out instead of naming what came later. Addresses of
//! the device are not used: not every backend has them, and memory that a result takes the place of
//! has another one afterwards.

use crate::types::{BackendError, BackendResult};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Addresses are multiples of this, as those of `cuMemAlloc` are.
pub(crate) const ALIGNMENT: u64 = 256;

/// The first address: far from null, and from what a program has as small numbers.
const FIRST: u64 = 1 << 40;

static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// Whose memory is where, for error sentences: start to (end, backend).
static OWNERS: Mutex<BTreeMap<u64, (u64, Arc<str>)>> = Mutex::new(BTreeMap::new());

fn owners() -> MutexGuard<'static, BTreeMap<u64, (u64, Arc<str>)>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address for so many bytes of a backend. There is a gap behind them, so that the end of one
/// allocation is not the start of another.
pub(crate) fn take(bytes: usize, owner: &Arc<str>) -> BackendResult<u64> {
    let step = (bytes as u64).checked_add(1).and_then(|n| n.checked_next_multiple_of(ALIGNMENT));
    let next = |now: u64| step.and_then(|step| now.checked_add(step));
    let start = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).map_err(|_| {
        BackendError::DeviceError("alloc: all 2^64 addresses of the process were given out".into())
    })?;
    owners().insert(start, (start + bytes as u64, owner.clone()));
    Ok(start)
}

/// The memory at an address is no more.
pub(crate) fn forget(start: u64) {
    owners().remove(&start);
}

/// Whose memory an address points into.
pub(crate) fn owner(ptr: u64) -> Option<Arc<str>> {
    let all = owners();
    let (_, (end, owner)) = all.range(..=ptr).next_back()?;
    (ptr < *end).then(|| owner.clone())
}
