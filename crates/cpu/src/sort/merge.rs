//! Parallel merge sort of one long row: each thread sorts a run, then runs are merged pairwise,
//! each merge split into independent parts.
//!
//! A part finds its start in both runs by bisection (merge path: Akl and Santoro, "Optimal parallel
//! merging and sorting without memory conflicts", 1987).

use super::plan::TASK_ELEMENTS;
use super::radix::SortKey;
use crate::CpuDevice;
use crate::runtime::parallel::{for_each_piece, try_for_each_piece};
use elinvar_core::Result;

/// Sorts keys of which no two are equal, and whose places ascend.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn sort<K: SortKey>(d: &CpuDevice, mut keys: K::Keys) -> Result<K::Keys> {
    let len = keys.len();
    let mut run = len.div_ceil(d.threads()).next_multiple_of(TASK_ELEMENTS);
    // About so many comparisons, each a few nanoseconds.
    try_for_each_piece(d, &mut keys, run, f64::from(len.max(2).ilog2()), &|_, run| K::sort(run))?;
    let mut merged = K::many(if run < len { len } else { 0 })?;
    while run < len {
        for_each_piece(d, &mut merged, TASK_ELEMENTS, 2.0, &|start, out| {
            let first = start / (2 * run) * (2 * run);
            let (a, b) = keys[first..len.min(first + 2 * run)].split_at(run.min(len - first));
            merge(a, b, start - first, out);
        });
        std::mem::swap(&mut keys, &mut merged);
        run *= 2;
    }
    Ok(keys)
}

/// The elements from number `at` on of two sorted runs merged.
fn merge<K: Copy + Ord>(a: &[K], b: &[K], at: usize, out: &mut [K]) {
    let mut i = split_point(a, b, at);
    let mut j = at - i;
    for out in out {
        let left = j == b.len() || (i < a.len() && a[i] < b[j]);
        if left {
            *out = a[i];
            i += 1;
        } else {
            *out = b[j];
            j += 1;
        }
    }
}

/// How many of the first `at` elements of the merged runs come from `a`.
fn split_point<K: Ord>(a: &[K], b: &[K], at: usize) -> usize {
    let (mut low, mut high) = (at.saturating_sub(b.len()), at.min(a.len()));
    while low < high {
        let i = usize::midpoint(low, high);
        // `a[i]` is among the first if it comes before the element of `b` that would be there in
        // its place.
        if a[i] < b[at - i - 1] { low = i + 1 } else { high = i }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn runs_become_one() {
        for threads in [1, 2, 3, 8] {
            let d = CpuDevice::new(Isa::best(), threads).unwrap();
            for len in [0, 1, TASK_ELEMENTS, 2 * TASK_ELEMENTS + 1, 10 * TASK_ELEMENTS - 7] {
                // A permutation: 2_654_435_761 is odd and a prime.
                let rank = |i: u64| i * 2_654_435_761 % (1 << 32);
                let mut keys = i64::many(len).unwrap();
                keys.iter_mut()
                    .enumerate()
                    .for_each(|(i, key)| *key = SortKey::new(rank(i as u64) as u32, i));
                let mut right = keys.to_vec();
                right.sort_unstable();
                assert!(*sort::<i64>(&d, keys).unwrap() == right[..], "{len} keys, {threads} threads");
            }
        }
    }
}
