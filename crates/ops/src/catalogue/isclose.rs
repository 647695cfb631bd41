//! isclose: are two numbers equal within a tolerance?

use super::{
    abs, add, bitwise_xor, eq, ge, isfinite, isnan, le, logical_and, logical_or, maximum, minimum, mul, sub,
    where_,
};
use crate::prelude::*;
use crate::value::cast;

/// |x - y| <= atol + rtol |y|, as bool, elementwise, operands broadcast. Infinite numbers are close
/// to themselves alone, and NaN to NaN if `equal_nan`. The distance of integers is exact, and what
/// they may be apart is computed in f64.
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
        return logical_or(&close, &integers_are_near(x, y, rtol, atol)?);
    }
    if equal_nan {
        close = logical_or(&close, &logical_and(&isnan(x)?, &isnan(y)?)?)?;
    }
    let wide = |v: &V| cast(&v.detached(), x.dtype().compute());
    let (x, y) = (wide(x)?, wide(y)?);
    let distance = abs(&sub(&x, &y)?)?;
    let allowed = tolerance(&y, rtol, atol)?;
    let near = logical_and(&isfinite(&distance)?, &le(&distance, &allowed)?)?;
    logical_or(&close, &near)
}

/// atol + |rtol y|
fn tolerance<V: Value>(y: &V, rtol: f64, atol: f64) -> Result<V> {
    add(&abs(&mul(y, &y.scalar_like(rtol)?)?)?, &y.scalar_like(atol)?)
}

/// Integers whose distance, which is below 2^64, is within the tolerance. Both are i64 less 2^63,
/// so that their order is that of i64; what the tolerance has beyond 2^64 the conversion cuts off.
fn integers_are_near<V: Value>(x: &V, y: &V, rtol: f64, atol: f64) -> Result<V> {
    let (x, y) = (cast(x, DType::I64)?, cast(y, DType::I64)?);
    let half = y.scalar_like(i64::MIN)?;
    let distance = bitwise_xor(&sub(&maximum(&x, &y)?, &minimum(&x, &y)?)?, &half)?;
    let allowed = tolerance(&cast(&y, DType::F64)?, rtol, atol)?;
    let wide_half = allowed.scalar_like(2f64.powi(63))?;
    let low = bitwise_xor(&cast(&allowed, DType::I64)?, &half)?;
    let high = cast(&sub(&allowed, &wide_half)?, DType::I64)?;
    // A tolerance that is NaN becomes 0 in `low`, and allows equal numbers alone.
    le(&distance, &where_(&ge(&allowed, &wide_half)?, &high, &low)?)
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
