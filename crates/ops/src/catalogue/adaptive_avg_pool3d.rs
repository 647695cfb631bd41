//! adaptive_avg_pool3d: averages over windows that divide 3 spatial axes evenly.

use super::pool;
use crate::prelude::*;

/// The average of each of `output_size` parts: part i of an axis of n elements goes from
/// floor(i * n / out) to ceil((i + 1) * n / out).
///
/// x: [n, c, d, h, w] or [c, d, h, w]. A list of one number applies to all axes.
///
/// # Errors
/// `ShapeMismatch` if the rank does not fit or a spatial axis is empty; `DTypeMismatch` if x is not
/// of floats; `OutOfMemory`.
pub fn adaptive_avg_pool3d<V: Value>(x: &V, output_size: &[usize]) -> Result<V> {
    autocast!("adaptive_avg_pool3d", x => adaptive_avg_pool3d(x, output_size));
    pool::adaptive_avg("adaptive_avg_pool3d", x, output_size, 3)
}

/// By name: operand x; attribute output_size.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![adaptive_avg_pool3d(a.input("x")?, &a.sizes("output_size")?)?])
}
