//! Software prefetch hints: a line into L1 or L2, or all lines of a slice into L2. No effect where
//! the compiler has no such intrinsic.
#![allow(unsafe_code, reason = "a hint to the processor")]

use super::LINE;

macro_rules! hints {
    ($($(#[$doc:meta])* $name:ident $hint:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<T>(place: *const T) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch is a hint; any address is allowed.
            unsafe {
                use std::arch::x86_64::{$hint, _mm_prefetch};
                _mm_prefetch::<$hint>(place.cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = place;
        }
    )*};
}
hints! {
    /// Prefetches the cache line at this address into L1; no effect where the compiler has no such
    /// intrinsic.
    prefetch_l1 _MM_HINT_T0;
    /// Prefetches into L2: for lines that come from memory, so that the few line fill buffers of L1
    /// stay free for the lines that are needed now.
    prefetch_l2 _MM_HINT_T1;
}

/// Prefetches a slice of this many elements into L2.
#[inline(always)]
pub fn prefetch_lines<T>(place: *const T, count: usize) {
    for i in (0..count * size_of::<T>()).step_by(LINE) {
        prefetch_l2(place.wrapping_byte_add(i));
    }
}
