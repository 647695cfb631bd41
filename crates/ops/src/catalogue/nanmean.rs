//! nanmean: the mean of the elements that are not NaN.

use super::{div::div, isnan, logical_not, nansum, sum};
use crate::prelude::*;
use crate::value::cast;

/// The mean over `dims` (all axes if `None` or empty) of what is not NaN; NaN where all is.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn nanmean<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!("nanmean: {} are no floats; convert them", x.dtype())));
    }
    widen([x], |[x]| {
        let count = sum(&logical_not(&isnan(&x.detached())?)?, dims, keepdim)?;
        div(&nansum(x, dims, keepdim)?, &cast(&count, x.dtype())?)
    })
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![nanmean(&a.converted()?, dims.as_deref(), a.bool("keepdim")?)?])
}
