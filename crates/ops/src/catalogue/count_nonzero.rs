//! count_nonzero: how many elements are not zero. NaN counts, -0 does not.

use super::{cast, sum};
use crate::prelude::*;

/// How many elements (i64) of `x` over `dims` (all axes if `None` or empty) are not zero.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn count_nonzero<V: Value>(x: &V, dims: Option<&[isize]>) -> Result<V> {
    sum(&cast(&x.detached(), DType::Bool)?, dims, false).map_err(|e| e.at("count_nonzero"))
}

/// By name: operand x; attribute dim (null, an axis or a list).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![count_nonzero(a.input("x")?, dims.as_deref())?])
}
