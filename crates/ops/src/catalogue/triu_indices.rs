//! triu_indices: where the upper triangle of a matrix is.

use super::tril_indices::{below, numbers};
use crate::backend::Memory;
use crate::prelude::*;

/// The rows and columns (i64, [2, n]) of the elements of a `rows` x `columns` matrix on the
/// diagonal `offset` above the main one and above it, row by row.
///
/// # Errors
/// `OutOfMemory`, also on the host; more indices than there are addresses.
pub fn on<B: Backend>(
    device: &<B as Memory>::Device,
    rows: usize,
    columns: usize,
    offset: isize,
) -> Result<Array<B>> {
    // Turned by 180 degrees, they are the lower triangle.
    let n = below(rows, columns, columns as i128 - rows as i128 - offset as i128);
    // No later row has a column right of the diagonal.
    let end = (columns as i128 - offset as i128).clamp(0, rows as i128) as usize;
    let start = |row: usize| (row as isize).saturating_add(offset).max(0) as usize;
    numbers(device, n, 0..end, |row| start(row)..columns)
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
