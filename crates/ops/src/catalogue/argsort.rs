//! argsort: the indices that would sort an axis. Stable in both directions; NaN is the largest. No
//! gradient.

use super::sort;
use crate::prelude::*;

/// The indices (i64) that put the elements of `x` in order along `dim`. Equal elements keep their
/// order, also when `descending`; NaN counts as the largest.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn argsort<V: Value>(x: &V, dim: isize, descending: bool) -> Result<V> {
    Ok(V::from_array(sort::run("argsort", x.array(), dim, descending, None)?.1))
}

/// By name: operand x; attributes dim and descending.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![argsort(a.input("x")?, a.dim("dim")?, a.bool("descending")?)?])
}
