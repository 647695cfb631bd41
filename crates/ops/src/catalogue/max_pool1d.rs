//! max_pool1d: the largest element of each window over 1 spatial axis. NaN wins; the first of equal
//! elements counts.

use super::pool::Given;
use crate::prelude::*;

/// The largest element of each window.
///
/// x: [n, c, l] or [c, l]. An empty `stride` is the kernel's size; the padding counts as -inf.
/// Sizes: (x + 2 * padding - dilation * (k - 1) - 1) / stride + 1, rounded down, or up with
/// `ceil_mode` as long as the last window begins before the padding at the end. A list of one
/// number applies to all axes.
///
/// # Errors
/// `ShapeMismatch` if the rank does not fit or no window does; `InvalidArgument` for a kernel,
/// stride or dilation of 0, or a padding above half of the kernel; `DTypeMismatch` if x is not of
/// floats; `OutOfMemory`.
pub fn max_pool1d<V: Value>(
    x: &V,
    kernel_size: &[usize],
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    ceil_mode: bool,
) -> Result<V> {
    Ok(with_indices(x, kernel_size, stride, padding, dilation, ceil_mode)?.0)
}

/// As [`max_pool1d`], with the source of each element: its row-major index in its plane (i64).
///
/// # Errors
/// As [`max_pool1d`].
pub fn with_indices<V: Value>(
    x: &V,
    kernel_size: &[usize],
    stride: &[usize],
    padding: &[usize],
    dilation: &[usize],
    ceil_mode: bool,
) -> Result<(V, V)> {
    let op = "max_pool1d";
    Given { op, axes: 1, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad: false, divisor_override: None }.max(x)
}

/// By name: operand x; attributes kernel_size, stride, padding, dilation, ceil_mode, and
/// return_indices (absent: false), for the sources as a second result.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (kernel, stride) = (a.sizes("kernel_size")?, a.maybe("stride", Args::sizes)?.unwrap_or_default());
    let (padding, dilation) = (a.sizes("padding")?, a.sizes("dilation")?);
    let given = (a.input("x")?, a.bool("ceil_mode")?);
    let both = with_indices(given.0, &kernel, &stride, &padding, &dilation, given.1)?;
    let wanted = a.maybe("return_indices", Args::bool)?.unwrap_or(false);
    Ok(if wanted { vec![both.0, both.1] } else { vec![both.0] })
}
