//! tril_indices: where the lower triangle of a matrix is.

use crate::backend::Memory;
use crate::prelude::*;
use elinvar_core::host;

/// The rows and columns (i64, [2, n]) of the elements of a `rows` x `columns` matrix on the
/// diagonal
/// `offset` above the main one and below it, row by row.
///
/// # Errors
/// `OutOfMemory`, also on the host.
pub fn on<B: Backend>(
    device: &<B as Memory>::Device,
    rows: usize,
    columns: usize,
    offset: isize,
) -> Result<Array<B>> {
    let end = |row: usize| (row as isize).saturating_add(offset).saturating_add(1).clamp(0, columns as isize) as usize;
    numbers(device, rows, |row| 0..end(row))
}

/// Row and column of each element of the ranges of the rows.
pub(super) fn numbers<B: Backend>(
    device: &<B as Memory>::Device,
    rows: usize,
    range: impl Fn(usize) -> core::ops::Range<usize>,
) -> Result<Array<B>> {
    let too_many = || Error::shape("tril_indices: more indices than memory can hold".to_string());
    let n = (0..rows).try_fold(0usize, |n, row| n.checked_add(range(row).len())).ok_or_else(too_many)?;
    let mut all: Vec<i64> = host::with_capacity(n.checked_mul(2).ok_or_else(too_many)?)?;
    all.extend((0..rows).flat_map(|row| range(row).map(move |_| row as i64)));
    all.extend((0..rows).flat_map(|row| range(row).map(|column| column as i64)));
    Array::from_vec(device, all, &[2, n])
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
