//! avg_pool2d: the average of each window over 2 spatial axes, summed in the canonical order.

use super::pool::Given;
use crate::prelude::*;

/// The average of each window.
///
/// x: [n, c, h, w] or [c, h, w]. An empty `stride` is the kernel's size. Sizes: (x + 2 * padding -
/// k) / stride + 1, rounded down, or up with `ceil_mode` as long as the last window begins before
/// the padding at the end. The padding counts as zeros if `count_include_pad`, else not at all. A
/// list of one number applies to all axes.
///
/// # Errors
/// `ShapeMismatch` if the rank does not fit or no window does; `InvalidArgument` for a kernel or
/// stride of 0, or a padding above half of the kernel; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn avg_pool2d<V: Value>(
    x: &V,
    kernel_size: &[usize],
    stride: &[usize],
    padding: &[usize],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<V> {
    with_divisor(x, [kernel_size, stride, padding], ceil_mode, count_include_pad, None)
}

/// The same with `divisor_override` in place of a window's size, if there is one.
///
/// # Errors
/// As [`avg_pool2d`]; `InvalidArgument` if it is 0.
pub fn with_divisor<V: Value>(
    x: &V,
    [kernel_size, stride, padding]: [&[usize]; 3],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<usize>,
) -> Result<V> {
    let given = Given {
        op: "avg_pool2d",
        axes: 2,
        kernel_size,
        stride,
        padding,
        dilation: &[1],
        ceil_mode,
        count_include_pad,
        divisor_override,
    };
    given.avg(x)
}

/// By name: operand x; attributes kernel_size, stride, padding, ceil_mode, count_include_pad,
/// divisor_override (absent: null).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (kernel, stride) = (a.sizes("kernel_size")?, a.maybe("stride", Args::sizes)?.unwrap_or_default());
    let (padding, ceil) = (a.sizes("padding")?, a.bool("ceil_mode")?);
    let divisor = a.maybe("divisor_override", Args::size)?;
    let (windows, padded) = ([&kernel[..], &stride, &padding], a.bool("count_include_pad")?);
    Ok(vec![with_divisor(a.input("x")?, windows, ceil, padded, divisor)?])
}
