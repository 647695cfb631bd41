//! pdist: the distances of all pairs of different rows of one matrix.

use super::{cdist, index_select, view};
use crate::prelude::*;

/// The `p`-norm of `x[i] - x[j]` for all i < j, in row-major order.
///
/// x: [n, k]   result: [n (n - 1) / 2]
///
/// # Errors
/// `ShapeMismatch` if x is not a matrix; `InvalidArgument` if p is negative or NaN;
/// `DTypeMismatch`; `OutOfMemory`.
pub fn pdist<V: Value>(x: &V, p: f64) -> Result<V> {
    let [n, _] = x.shape()[..] else {
        return Err(Error::shape(format!("pdist: shape {}; it must be a matrix", x.shape())));
    };
    let pairs = || (0..n as i64).flat_map(|i| (i + 1..n as i64).map(move |j| (i, j)));
    let count = Shape::new(&[n, n.saturating_sub(1)])?.numel() / 2;
    let rows = |at: V| index_select(x, 0, &at);
    let first = rows(view::numbers(x, count, pairs().map(|p| p.0))?)?;
    let second = rows(view::numbers(x, count, pairs().map(|p| p.1))?)?;
    cdist::distance("pdist", &first, &second, p, 0.0)
}

/// By name: operand x; attribute p (absent: 2).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![pdist(a.input("x")?, a.maybe("p", Args::f64)?.unwrap_or(2.0))?])
}
