//! max_unpool3d: the largest elements of windows put back to where they were, and 0 elsewhere.

use super::unpool;
use crate::prelude::*;

/// The elements of `x` at their `indices`, the second result of max_pool3d: row-major in the
/// spatial axes. The result's spatial sizes are `output_size`, or the smallest that the pool could
/// have had. Where an index repeats, the last element stays.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if an attribute has the wrong number of values or an index is
/// outside; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn max_unpool3d<V: Value>(
    x: &V,
    indices: &V,
    kernel_size: &[usize],
    stride: &[usize],
    padding: &[usize],
    output_size: Option<&[usize]>,
) -> Result<V> {
    autocast!("max_unpool3d", x => max_unpool3d(x, indices, kernel_size, stride, padding, output_size));
    unpool::run("max_unpool3d", 3, [x, indices], [kernel_size, stride, padding], output_size)
}

/// By name: operands x and indices; attributes kernel_size, stride (null: the kernel's), padding
/// (absent: 0) and output_size (null: the smallest).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    unpool::named(a, max_unpool3d)
}
