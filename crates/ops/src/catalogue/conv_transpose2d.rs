//! conv_transpose2d: the transposed convolution over 2 spatial axes: the gradient of conv2d by its
//! input.

use super::conv::Given;
use crate::prelude::*;

/// Every x[n, c, ..] adds x * weight[c, o, tap] to the outputs that conv2d would read it from; then
/// bias\[o\].
///
/// x: [n, c, h, w] or [c, h, w]   weight: [c, o / groups, kh, kw]   bias: \[o\]
/// Sizes: (x - 1) * stride - 2 * padding + dilation * (k - 1) + 1 + output_padding. A list of one
/// number applies to all axes.
///
/// # Errors
/// `ShapeMismatch` if ranks or channels do not fit or the output would be empty; `InvalidArgument`
/// for a stride, dilation or number of groups of 0, or an output_padding that is not below stride
/// or dilation; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn conv_transpose2d<V: Value>(
    x: &V,
    weight: &V,
    bias: Option<&V>,
    stride: &[usize],
    padding: &[usize],
    output_padding: &[usize],
    groups: usize,
    dilation: &[usize],
) -> Result<V> {
    let given = Given { op: "conv_transpose2d", axes: 2, stride, dilation, groups };
    given.transposed(x, weight, bias, padding, output_padding)
}

/// By name: operands x, weight, bias if there is one; attributes stride, padding, output_padding,
/// groups, dilation.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (stride, padding, dilation) = (a.sizes("stride")?, a.sizes("padding")?, a.sizes("dilation")?);
    let (x, w, bias, extra) =
        (a.input("x")?, a.input("weight")?, a.optional("bias"), a.sizes("output_padding")?);
    Ok(vec![conv_transpose2d(x, w, bias, &stride, &padding, &extra, a.size("groups")?, &dilation)?])
}
