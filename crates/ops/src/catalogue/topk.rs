//! topk: the k largest or smallest elements of an axis, sorted. Of equal elements the first is
//! taken; NaN is the largest.

use super::sort;
use crate::prelude::*;

/// The `k` largest (or smallest) elements of `x` along `dim`, sorted, and their indices (i64):
/// (values, indices).
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or fewer than `k` elements in it; `OutOfMemory`.
pub fn topk<V: Value>(x: &V, k: usize, dim: isize, largest: bool) -> Result<(V, V)> {
    let axis = x.shape().axis("topk", dim)?;
    let n = x.shape().get(axis).copied().unwrap_or(1);
    if k > n {
        return Err(Error::argument(format!(
            "topk: {k} elements of axis {dim} of shape {}, which has {n}",
            x.shape()
        )));
    }
    // A scalar is a row of one, and stays a scalar.
    let first = if x.shape().rank() == 0 { n } else { k };
    sort::run("topk", x, dim, largest, Some(first))
}

/// By name: operand x; attributes k, dim and largest.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (values, indices) = topk(a.input("x")?, a.size("k")?, a.dim("dim")?, a.bool("largest")?)?;
    Ok(vec![values, indices])
}
