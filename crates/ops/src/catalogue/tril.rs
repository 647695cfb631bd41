//! tril: the lower triangle of matrices, 0 elsewhere.

use super::triu;
use crate::prelude::*;

/// The elements of the last two axes of `x` on and below the diagonal that is `diagonal` above the
/// main one; 0 above.
///
/// # Errors
/// `ShapeMismatch` if x has fewer than two axes; `OutOfMemory`.
pub fn tril<V: Value>(x: &V, diagonal: isize) -> Result<V> {
    triu::triangle("tril", x, diagonal, false)
}

/// By name: operand x; attribute diagonal.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tril(a.input("x")?, a.dim("diagonal")?)?])
}
