//! masked_fill: a scalar where a mask is true, else x. Exact. Masked elements of x affect neither
//! result nor gradient.

use super::where_;
use super::where_::check_bool;
use crate::prelude::*;

/// `x` with `value` where `mask` is true, elementwise, broadcast.
///
/// x: any dtype   mask: bool
///
/// # Errors
/// `DTypeMismatch` if `mask` is not bool or `value` does not fit x; `ShapeMismatch` if the shapes
/// do not broadcast; `DeviceMismatch`; `OutOfMemory`.
pub fn masked_fill<V: Value>(x: &V, mask: &V, value: impl Into<Scalar>) -> Result<V> {
    let value = value.into();
    check_bool("masked_fill", "mask", mask)?;
    where_(mask, &x.scalar_like(value).map_err(|e| e.at("masked_fill"))?, x)
}

/// By name: operands x and mask; attribute value.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![masked_fill(a.input("x")?, a.input("mask")?, a.scalar("value")?)?])
}
