//! Sorting network: short rows sorted side by side, one row per lane; which elements are compared
//! does not depend on the data.
//!
//! The comparisons are those of Batcher's odd-even merge sort ("Sorting networks and their
//! applications", 1968). Elements behind the end of a row would be greater than any and stay in
//! place, so comparisons with them are left out. Keys contain their index, so no two are equal, and
//! any order of comparisons gives the same result.

use super::keys::SortElement;
use super::plan::{NETWORK_MAX_ELEMENTS, NETWORK_TASK_ROWS};
use super::radix::SortKey;
use crate::CpuDevice;
use crate::runtime::output::parallel_fill::fill_two;
use elinvar_core::{HostVec, Result};
use elinvar_simd::isa::{Isa, Kernel, dispatch_formula};
use elinvar_simd::uninit::UninitSlice;

/// Rows side by side: comparisons of 64 bytes wait for each other less, with several of them.
const ROWS_PER_STEP: usize = 16;

/// Places that are compared, the lesser key to the first.
const fn network() -> [(u8, u8); 63] {
    let (mut all, mut n) = ([(0, 0); 63], 0);
    let mut run = 1;
    while run < NETWORK_MAX_ELEMENTS {
        let mut row_stride = run;
        while row_stride > 0 {
            let mut from = row_stride % run;
            while from + row_stride < NETWORK_MAX_ELEMENTS {
                let mut i = 0;
                while i < row_stride && from + i + row_stride < NETWORK_MAX_ELEMENTS {
                    // Both in one of the runs that are being merged.
                    if (from + i) / (2 * run) == (from + i + row_stride) / (2 * run) {
                        all[n] = ((from + i) as u8, (from + i + row_stride) as u8);
                        n += 1;
                    }
                    i += 1;
                }
                from += 2 * row_stride;
            }
            row_stride /= 2;
        }
        run *= 2;
    }
    assert!(n == 63, "the comparisons of sixteen places");
    all
}

/// Rows to be sorted, one after the other, of `n` elements each; and the first of each that are
/// wanted.
struct SortShortRows<'a, 'v, 'p, T> {
    x: &'a [T],
    n: usize,
    first: usize,
    down: bool,
    values: &'a mut UninitSlice<'v, T>,
    places: &'a mut UninitSlice<'p, i64>,
}

/// The lesser of each two keys to the first.
#[inline(always)]
fn compare<K: SortKey>(a: &mut [K; ROWS_PER_STEP], b: &mut [K; ROWS_PER_STEP]) {
    let (x, y) = (*a, *b);
    for r in 0..ROWS_PER_STEP {
        a[r] = if y[r] < x[r] { y[r] } else { x[r] };
        b[r] = if y[r] < x[r] { x[r] } else { y[r] };
    }
}

impl<T: SortElement> Kernel for SortShortRows<'_, '_, '_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        const NETWORK: [(u8, u8); 63] = network();
        let SortShortRows { x, n, first, down, values, places } = self;
        let (mut network, mut count) = ([(0, 0); 63], 0);
        for (a, b) in NETWORK {
            if usize::from(b) < n {
                network[count] = (usize::from(a), usize::from(b));
                count += 1;
            }
        }
        let mut keys = [[T::SortKey::new(T::SortKey::MAX_RANK, 0); ROWS_PER_STEP]; NETWORK_MAX_ELEMENTS];
        let mut ranks = [T::SortKey::MAX_RANK; ROWS_PER_STEP * NETWORK_MAX_ELEMENTS];
        let (mut sorted, mut from) =
            ([T::ZERO; ROWS_PER_STEP * NETWORK_MAX_ELEMENTS], [0i64; ROWS_PER_STEP * NETWORK_MAX_ELEMENTS]);
        for x in x.chunks(ROWS_PER_STEP * n) {
            for (rank, x) in ranks.iter_mut().zip(x) {
                *rank = x.rank(down);
            }
            // Rows that are not there have what was there before.
            for (i, keys) in keys[..n].iter_mut().enumerate() {
                for (r, key) in keys.iter_mut().enumerate() {
                    *key = T::SortKey::new(ranks[r * n + i], i);
                }
            }
            for &(a, b) in &network[..count] {
                let (low, high) = keys.split_at_mut(b);
                compare(&mut low[a], &mut high[0]);
            }
            let rows = x.len() / n;
            for (i, keys) in keys[..first].iter().enumerate() {
                for (r, key) in keys[..rows].iter().enumerate() {
                    let place = key.place();
                    sorted[r * first + i] = x[r * n + place];
                    from[r * first + i] = place as i64;
                }
            }
            values.copy(&sorted[..rows * first]);
            places.copy(&from[..rows * first]);
        }
    }
}

/// The first elements of each of `count` rows of `n` elements, at most [`NETWORK_MAX_ELEMENTS`], in
/// order, and their places. `block` gives the rows from a number on, so many.
///
/// # Errors
/// `OutOfMemory`; those of `block`.
pub(crate) fn sort<T: SortElement>(
    d: &CpuDevice,
    [n, count, first]: [usize; 3],
    down: bool,
    block: &(dyn Fn(usize, usize, &mut dyn FnMut(Isa, &[T])) -> Result<()> + Sync),
) -> Result<(HostVec<T>, HostVec<i64>)> {
    let tasks: Vec<[usize; 2]> = (0..count)
        .step_by(NETWORK_TASK_ROWS)
        .map(|row| [NETWORK_TASK_ROWS.min(count - row) * first; 2])
        .collect();
    // About so many comparisons, several at once.
    let ns = (count * n) as f64;
    fill_two(d, &tasks, ns, &|task, values: &mut UninitSlice<'_, T>, places: &mut UninitSlice<'_, i64>| {
        let rows = values.remaining() / first;
        block(task * NETWORK_TASK_ROWS, rows, &mut |isa, x| {
            let (values, places) = (&mut *values, &mut *places);
            dispatch_formula::<T, _>(isa, SortShortRows { x, n, first, down, values, places });
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network that sorts every row of zeros and ones sorts all rows.
    #[test]
    fn the_network_sorts_rows_of_every_length() {
        for n in 1..=NETWORK_MAX_ELEMENTS {
            for bits in 0..1u32 << n {
                let mut row: Vec<u32> = (0..n).map(|i| bits >> i & 1).collect();
                for (a, b) in network().map(|(a, b)| (usize::from(a), usize::from(b))) {
                    if b < n && row[b] < row[a] {
                        row.swap(a, b);
                    }
                }
                assert!(row.is_sorted(), "{bits:b} of {n}");
            }
        }
    }
}
