//! triu_indices: where the upper triangle of a matrix is.

use super::tril_indices::numbers;
use crate::backend::Memory;
use crate::prelude::*;

/// The rows and columns (i64, [2, n]) of the elements of a `rows` x `columns` matrix on the
/// diagonal
/// `offset` above the main one and above it, row by row.
///
/// # Errors
/// `OutOfMemory`, also on the host.
pub fn on<B: Backend>(
    device: &<B as Memory>::Device,
    rows: usize,
    columns: usize,
    offset: isize,
) -> Result<Array<B>> {
    let start = |row: usize| (row as isize).saturating_add(offset).clamp(0, columns as isize) as usize;
    numbers(device, rows, |row| start(row)..columns)
}

/// [`on`] the device of `like`, of which nothing else counts.
///
/// # Errors
/// As [`on`].
pub fn triu_indices<V: Value>(like: &V, rows: usize, columns: usize, offset: isize) -> Result<V> {
    on(like.device(), rows, columns, offset).map(V::from_array)
}

/// By name: operand like, whose device it is; attributes row, col and offset (absent: 0).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let offset = a.maybe("offset", Args::dim)?.unwrap_or(0);
    Ok(vec![triu_indices(a.input("like")?, a.size("row")?, a.size("col")?, offset)?])
}
