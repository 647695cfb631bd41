//! conv1d: cross-correlation over 1 spatial axis, with stride, padding, dilation and groups.

use super::conv::{Given, Padding, padding};
use crate::prelude::*;

/// y[n, o, l'] = bias\[o\] + sum over c and taps of x[n, c, ..] * weight[o, c, ..]
///
/// x: [n, c, l] or [c, l]   weight: [o, c / groups, k]   bias: \[o\]
/// Sizes: (x + 2 * padding - dilation * (k - 1) - 1) / stride + 1, rounded down. A list of one
/// number applies to all axes.
///
/// # Errors
/// `ShapeMismatch` if ranks or channels do not fit or the kernel is larger than the padded input;
/// `InvalidArgument` for a stride, dilation or number of groups of 0; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn conv1d<V: Value>(
    x: &V,
    weight: &V,
    bias: Option<&V>,
    stride: &[usize],
    padding: &Padding,
    dilation: &[usize],
    groups: usize,
) -> Result<V> {
    Given { op: "conv1d", axes: 1, stride, dilation, groups }.forward(x, weight, bias, padding)
}

/// By name: operands x, weight, bias if there is one; attributes stride, padding (numbers, same or
/// valid), dilation, groups.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (stride, dilation) = (a.sizes("stride")?, a.sizes("dilation")?);
    let (x, w, bias) = (a.input("x")?, a.input("weight")?, a.optional("bias"));
    Ok(vec![conv1d(x, w, bias, &stride, &padding(a)?, &dilation, a.size("groups")?)?])
}
