//! tril_indices: where the lower triangle of a matrix is.

use crate::backend::Memory;
use crate::prelude::*;
use core::ops::Range;
use elinvar_core::host;

/// The rows and columns (i64, [2, n]) of the elements of a `rows` x `columns` matrix on the
/// diagonal `offset` above the main one and below it, row by row.
///
/// # Errors
/// `OutOfMemory`, also on the host; more indices than there are addresses.
pub fn on<B: Backend>(
    device: &<B as Memory>::Device,
    rows: usize,
    columns: usize,
    offset: isize,
) -> Result<Array<B>> {
    let n = below(rows, columns, offset as i128);
    // All rows before are empty.
    let first = offset.min(0).unsigned_abs().min(rows);
    let end = |row: usize| (row as isize).saturating_add(offset).saturating_add(1).min(columns as isize);
    numbers(device, n, first..rows, |row| 0..end(row) as usize)
}

/// The elements of a matrix on a diagonal and below it, counted without a look at each row: a
/// number of rows is no size that memory must hold.
pub(super) fn below(rows: usize, columns: usize, offset: i128) -> Option<usize> {
    let (rows, columns) = (rows as i128, columns as i128);
    let first = (-offset).clamp(0, rows);
    let whole = (columns - offset).clamp(first, rows);
    // The rows from the first up to the whole ones have one element more each.
    let (shortest, longest) = (first + offset + 1, whole + offset);
    let triangle = (whole - first).checked_mul(shortest + longest)? / 2;
    usize::try_from(triangle.checked_add((rows - whole).checked_mul(columns)?)?).ok()
}

/// Row and column of each element, `n` in all, of the ranges of the rows.
pub(super) fn numbers<B: Backend>(
    device: &<B as Memory>::Device,
    n: Option<usize>,
    rows: Range<usize>,
    range: impl Fn(usize) -> Range<usize>,
) -> Result<Array<B>> {
    let count = n.and_then(|n| n.checked_mul(2));
    let count = count.ok_or_else(|| Error::memory("more indices of a triangle than memory can hold"))?;
    let mut all: Vec<i64> = host::with_capacity(count)?;
    let rows = if count == 0 { 0..0 } else { rows };
    all.extend(rows.clone().flat_map(|row| range(row).map(move |_| row as i64)));
    all.extend(rows.flat_map(|row| range(row).map(|column| column as i64)));
    Array::from_vec(device, all, &[2, count / 2])
}

/// [`on`] the device of `like`, of which nothing else counts.
///
/// # Errors
/// As [`on`].
pub fn tril_indices<V: Value>(like: &V, rows: usize, columns: usize, offset: isize) -> Result<V> {
    on(like.device(), rows, columns, offset).map(V::from_array)
}

/// By name: operand like, whose device it is; attributes row, col and offset (absent: 0).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let offset = a.maybe("offset", Args::dim)?.unwrap_or(0);
    Ok(vec![tril_indices(a.input("like")?, a.size("row")?, a.size("col")?, offset)?])
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn elements_below_a_diagonal_are_counted() {
        for rows in 0..6usize {
            for columns in 0..6usize {
                for offset in -8..8i128 {
                    let of_row = |row: usize| (row as i128 + offset + 1).clamp(0, columns as i128) as usize;
                    let want = (0..rows).map(of_row).sum();
                    assert_eq!(below(rows, columns, offset), Some(want), "{rows} x {columns}, {offset}");
                }
            }
        }
        assert_eq!(below(1 << 40, 3, 2 - (1 << 40)), Some(1 + 2));
        assert_eq!(below(usize::MAX, 0, 0), Some(0));
        assert_eq!(below(usize::MAX, usize::MAX, 0), None);
    }
}
