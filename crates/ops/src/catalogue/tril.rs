//! tril: the lower triangle of matrices, 0 elsewhere.

use super::{triu, view};
use crate::prelude::*;

/// The elements of the last two axes of `x` on and below the diagonal that is `diagonal` above the main one; 0 above.
///
/// # Errors
/// `ShapeMismatch` if x has no two axes; `OutOfMemory`.
pub fn tril<V: Value>(x: &V, diagonal: isize) -> Result<V> {
    let (row, col) = triu::coordinates("tril", x, diagonal)?;
    super::where_(&super::le(&col, &row)?, x, &view::zeros(x, &Shape::scalar())?)
}

/// By name: operand x; attribute diagonal.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tril(a.input("x")?, a.dim("diagonal")?)?])
}
