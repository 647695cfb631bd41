//! kthvalue: the k-th smallest element of an axis. NaN is the largest.

use super::gather::at_least_1d;
use super::{argsort, gather, narrow, sum};
use crate::prelude::*;

/// The `k`-th smallest element of `x` along `dim`, counted from 1, and its index (i64): (values,
/// indices). Of equal elements the first counts as smaller; NaN is the largest. The gradient goes
/// to the element at the index.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it has fewer than `k` elements, or `k` is 0;
/// `OutOfMemory`.
pub fn kthvalue<V: Value>(x: &V, k: usize, dim: isize, keepdim: bool) -> Result<(V, V)> {
    let axis = x.shape().axis("kthvalue", dim)?;
    let line = at_least_1d(x)?;
    let n = line.shape()[axis];
    if k == 0 || k > n {
        return Err(Error::argument(format!(
            "kthvalue: k is {k} for axis {axis} of shape {}; it must be in 1..={n}",
            x.shape()
        )));
    }
    let order = argsort(&line, axis as isize, false)?;
    at(x, &line, axis, &narrow::run(&order, axis, k - 1, 1)?, keepdim)
}

/// The elements of `line`, which is `x` with an axis at least, at indices of `axis` (of size 1
/// there), and these: (values, indices).
pub(super) fn at<V: Value>(x: &V, line: &V, axis: usize, index: &V, keepdim: bool) -> Result<(V, V)> {
    let value = gather(line, axis as isize, index)?;
    let keep = keepdim && x.shape().rank() > 0;
    Ok((sum::drop_axes(value, &[axis], keep)?, sum::drop_axes(index.clone(), &[axis], keep)?))
}

/// By name: operand x; attributes k, dim (absent: -1) and keepdim (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(-1);
    let keepdim = a.maybe("keepdim", Args::bool)?.unwrap_or(false);
    let (values, indices) = kthvalue(a.input("x")?, a.size("k")?, dim, keepdim)?;
    Ok(vec![values, indices])
}
