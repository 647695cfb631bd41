//! triu: the upper triangle of matrices, 0 elsewhere.

use super::{reshape, view};
use crate::prelude::*;

/// For every row of the last two axes the column at which the diagonal meets it, as `[rows, 1]`, and the columns, as
/// `[columns]`: to be compared.
///
/// # Errors
/// `ShapeMismatch` if x has no two axes; `OutOfMemory`.
pub(super) fn coordinates<V: Value>(op: &str, x: &V, diagonal: isize) -> Result<(V, V)> {
    let [.., rows, cols] = x.shape()[..] else {
        return Err(Error::shape(format!(
            "{op}: shape {} has no two axes; a matrix has rows and columns",
            x.shape()
        )));
    };
    let meets = (0..rows as i64).map(|r| r.saturating_add(diagonal as i64));
    let row = reshape::to_shape(&view::numbers(x, rows, meets)?, &Shape::new(&[rows, 1])?)?;
    Ok((row, view::numbers(x, cols, 0..cols as i64)?))
}

/// The elements of the last two axes of `x` on and above the diagonal that is `diagonal` above the main one; 0 below.
///
/// # Errors
/// `ShapeMismatch` if x has no two axes; `OutOfMemory`.
pub fn triu<V: Value>(x: &V, diagonal: isize) -> Result<V> {
    let (row, col) = coordinates("triu", x, diagonal)?;
    super::where_(&super::le(&row, &col)?, x, &view::zeros(x, &Shape::scalar())?)
}

/// By name: operand x; attribute diagonal.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![triu(a.input("x")?, a.dim("diagonal")?)?])
}
