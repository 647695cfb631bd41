//! Memory that is asked for before it is needed.
#![allow(unsafe_code, reason = "a hint to the processor")]

/// Has the first-level cache fetch the line that lies there, if anything does; where the compiler has no such hint, nothing.
#[inline(always)]
pub(crate) fn fetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
