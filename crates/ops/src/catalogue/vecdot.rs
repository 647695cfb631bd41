//! vecdot: the sums of products along an axis, in the order of a sum.

use super::{mul, sum};
use crate::prelude::*;
use crate::value::cast;

/// The sum of x * y over `dim` of the broadcast operands, which is dropped; in their dtype.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `InvalidArgument` if there is no such axis;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn vecdot<V: Value>(x: &V, y: &V, dim: isize) -> Result<V> {
    autocast!("vecdot", x, y => vecdot(x, y, dim));
    let shape = x.shape().broadcast(y.shape(), "vecdot")?;
    shape.axis("vecdot", dim)?;
    widen([x, y], |[x, y]| {
        let products = mul(x, y)?;
        if products.dtype().is_float() {
            return sum(&products, Some(&[dim]), false);
        }
        cast(&sum(&products, Some(&[dim]), false)?, products.dtype())
    })
}

/// By name: operands x and y; attribute dim (absent: -1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![vecdot(a.input("x")?, a.input("y")?, a.maybe("dim", Args::dim)?.unwrap_or(-1))?])
}
