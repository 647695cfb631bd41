//! Huge pages: `madvise` for large allocations, where the system has to be asked.
//!
//! With 4 KiB pages, large tensors exceed the reach of the TLB, and every miss is a page walk
//! (nested ones in a virtual machine). It is a hint: a system without it goes on with small pages.

use std::mem::MaybeUninit;

/// Bytes of a large page.
#[cfg(target_os = "linux")]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Wishes that the part of this memory that is whole large pages is in such.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a call of the system")]
pub(crate) fn advise_huge_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let start = memory.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(HUGE_PAGE_BYTES);
    let whole = size_of_val(memory).saturating_sub(before) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if whole > 0 {
        // SAFETY: `before + whole` is at most the size of the slice, so this is memory that the
        // slice borrows alone; the system keeps what is in it, and answers with an error, which is
        // no harm, if it does not know the wish.
        unsafe { libc::madvise(start.add(before).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems give large pages by themselves, or not at all.
#[cfg(not(target_os = "linux"))]
pub(crate) fn advise_huge_pages<T>(_: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_stays() {
        let mut v = vec![MaybeUninit::new(7u32); (5 << 20) / 4];
        advise_huge_pages(&mut v);
        advise_huge_pages::<f64>(&mut []);
        // SAFETY: all of it was written above.
        #[allow(unsafe_code, reason = "reading what was written")]
        let all = unsafe { v.assume_init_ref() };
        assert!(all.iter().all(|&x| x == 7));
    }
}
