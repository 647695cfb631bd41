//! Large pages for large memory, where the system has to be asked for them.
//!
//! A processor remembers where some thousand pages lie. Beyond, each page is looked up, in a virtual machine in two tables of
//! tables; reading 64 MiB in pages of 4 KiB took a third longer than in pages of 2 MiB. It is a wish: a system that
//! does not know it, or has no such page, goes on with small ones.

use std::mem::MaybeUninit;

/// Bytes of a large page.
#[cfg(target_os = "linux")]
const PAGE: usize = 2 << 20;

/// Wishes that the part of this memory that is whole large pages lies in such.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a call of the system")]
pub(crate) fn in_large_ones<T>(memory: &mut [MaybeUninit<T>]) {
    let start = memory.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(PAGE);
    let whole = size_of_val(memory).saturating_sub(before) / PAGE * PAGE;
    if whole > 0 {
        // SAFETY: `before + whole` is at most the size of the slice, so this is memory that the slice borrows alone; the
        // system keeps what is in it, and answers with an error, which is no harm, if it does not know the wish.
        unsafe { libc::madvise(start.add(before).cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

/// Other systems give large pages by themselves, or not at all.
#[cfg(not(target_os = "linux"))]
pub(crate) fn in_large_ones<T>(_: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_stays() {
        let mut v = vec![MaybeUninit::new(7u32); (5 << 20) / 4];
        in_large_ones(&mut v);
        in_large_ones::<f64>(&mut []);
        // SAFETY: all of it was written above.
        #[allow(unsafe_code, reason = "reading what was written")]
        let all = unsafe { v.assume_init_ref() };
        assert!(all.iter().all(|&x| x == 7));
    }
}
