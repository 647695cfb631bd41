//! isclose: are two numbers equal within a tolerance?

use super::{abs, add, eq, isfinite, isnan, le, logical_and, logical_or, mul, sub};
use crate::prelude::*;
use crate::value::cast;

/// |x - y| <= atol + rtol |y|, as bool, elementwise, operands broadcast. Infinite numbers are close
/// to themselves alone, and NaN to NaN if `equal_nan`. Integers are compared in f64.
///
/// # Errors
/// `InvalidArgument` if a tolerance is negative or NaN; `ShapeMismatch`; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn isclose<V: Value>(x: &V, y: &V, rtol: f64, atol: f64, equal_nan: bool) -> Result<V> {
    if !(rtol >= 0.0 && atol >= 0.0) {
        return Err(Error::argument(format!(
            "isclose: rtol {rtol} and atol {atol}; neither may be negative or NaN"
        )));
    }
    let mut close = eq(x, y)?;
    if !x.dtype().is_float() {
        if rtol == 0.0 && atol == 0.0 {
            return Ok(close);
        }
        let wide = |v: &V| cast(v, DType::F64);
        return isclose(&wide(x)?, &wide(y)?, rtol, atol, equal_nan);
    }
    if equal_nan {
        close = logical_or(&close, &logical_and(&isnan(x)?, &isnan(y)?)?)?;
    }
    let wide = |v: &V| cast(&v.detached(), x.dtype().compute());
    let (x, y) = (wide(x)?, wide(y)?);
    let distance = abs(&sub(&x, &y)?)?;
    let allowed = add(&abs(&mul(&y, &y.scalar_like(rtol)?)?)?, &y.scalar_like(atol)?)?;
    let near = logical_and(&isfinite(&distance)?, &le(&distance, &allowed)?)?;
    logical_or(&close, &near)
}

/// The attributes rtol, atol and equal_nan (absent: 1e-5, 1e-8, false).
pub(super) fn attributes<V: Value>(a: &Args<V>) -> Result<(f64, f64, bool)> {
    let number = |name, default| Ok::<_, Error>(a.maybe(name, Args::f64)?.unwrap_or(default));
    let equal_nan = a.maybe("equal_nan", Args::bool)?.unwrap_or(false);
    Ok((number("rtol", 1e-5)?, number("atol", 1e-8)?, equal_nan))
}

/// By name: operands x and y; attributes rtol, atol and equal_nan (absent: 1e-5, 1e-8, false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (rtol, atol, equal_nan) = attributes(a)?;
    Ok(vec![isclose(a.input("x")?, a.input("y")?, rtol, atol, equal_nan)?])
}
