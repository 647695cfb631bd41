//! nansum: the sum of the elements that are not NaN.

use super::{isnan, masked_fill, sum};
use crate::prelude::*;

/// The sum over `dims` (all axes if `None` or empty) of what is not NaN. Integers and bool sum to
/// i64.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn nansum<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    if !x.dtype().is_float() {
        return sum(x, dims, keepdim);
    }
    sum(&masked_fill(x, &isnan(x)?, Scalar::Int(0))?, dims, keepdim)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![nansum(&a.converted()?, dims.as_deref(), a.bool("keepdim")?)?])
}
