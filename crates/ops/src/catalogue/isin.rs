//! isin: which elements are among those of another tensor? These are sorted, and searched.

use super::{clamp, eq, flatten, gather, ne, reshape, searchsorted, sort, view};
use crate::prelude::*;
use crate::value::cast;

/// Is each of `elements` one of `test_elements` (or, if `invert`, none of them)? bool, in the shape
/// of `elements`. NaN is never one.
///
/// # Errors
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn isin<V: Value>(elements: &V, test_elements: &V, invert: bool) -> Result<V> {
    view::same_dtype("isin", &[elements, test_elements])?;
    if elements.dtype() == DType::Bool {
        return isin(&cast(elements, DType::U8)?, &cast(test_elements, DType::U8)?, invert);
    }
    let (x, n) = (elements.detached(), test_elements.shape().numel());
    if n == 0 {
        let no = Array::full(x.device(), x.shape(), Scalar::Bool(invert), DType::Bool)?;
        return Ok(V::from_array(no));
    }
    let (sorted, _) = sort(&flatten::all(&test_elements.detached())?, 0, false)?;
    let place = searchsorted(&sorted, &x, false).map_err(|e| e.at("isin"))?;
    let place = flatten::all(&clamp(&place, None, Some(Scalar::from(n - 1)))?)?;
    let nearest = reshape::to_shape(&gather(&sorted, 0, &place)?, x.shape())?;
    if invert { ne(&x, &nearest) } else { eq(&x, &nearest) }
}

/// By name: operands elements and test_elements; attribute invert (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let invert = a.maybe("invert", Args::bool)?.unwrap_or(false);
    Ok(vec![isin(a.input("elements")?, a.input("test_elements")?, invert)?])
}
