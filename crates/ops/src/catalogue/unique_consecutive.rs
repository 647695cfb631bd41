//! unique_consecutive: elements (or slices) that differ from the one before them. The size of the
//! result depends on the values, so this synchronises with the device. No gradient.

use super::unique::{self, Unique};
use crate::prelude::*;

/// The elements of `x`, flattened, or with `dim` the slices along that axis, without those that
/// equal the one before them, in their order.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or the slices are empty and there are some;
/// `OutOfMemory`.
pub fn unique_consecutive<V: Value>(x: &V, dim: Option<isize>) -> Result<Unique<V>> {
    unique::run("unique_consecutive", x, dim, false)
}

/// By name: operand x; attribute dim (null: the flattened tensor).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let u = unique_consecutive(a.input("x")?, a.maybe("dim", Args::dim)?)?;
    Ok(vec![u.values, u.inverse, u.counts])
}
