//! heaviside: the step function, with given values at 0. Exact.

use super::{cast, eq, gt, where_};
use crate::prelude::*;

/// 0 where x is below 0 or NaN, 1 above, and `values` where it is 0, elementwise, operands
/// broadcast. The gradient is that of `values`.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch` if they are of two dtypes;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn heaviside<V: Value>(x: &V, values: &V) -> Result<V> {
    super::view::same_dtype("heaviside", &[x, values])?;
    let x = x.detached();
    let zero = x.scalar_like(0i64)?;
    let step = cast(&gt(&x, &zero)?, x.dtype())?;
    where_(&eq(&x, &zero)?, values, &step).map_err(|e| e.at("heaviside"))
}

/// By name: operands x and values.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![heaviside(a.input("x")?, a.input("values")?)?])
}
