//! nan_to_num: NaN and infinities replaced by numbers.

use super::{isnan, isneginf, isposinf, masked_fill};
use crate::prelude::*;

/// The largest finite number of a float type, from its bits.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        _ => f64::from(f32::MAX),
    }
}

/// `x` with `nan` for NaN, `posinf` for +inf and `neginf` for -inf (absent: the largest and the
/// least finite number). Integers stay as they are. What is replaced has no gradient.
///
/// # Errors
/// `DTypeMismatch` if x is a float of 8 bits; `OutOfMemory`.
pub fn nan_to_num<V: Value>(x: &V, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<V> {
    if !x.dtype().is_float() {
        return Ok(x.clone());
    }
    if x.dtype().is_storage() && !matches!(x.dtype(), DType::F16 | DType::BF16) {
        return Err(Error::dtype(format!("nan_to_num: {} has no infinities to replace; convert it", x.dtype())));
    }
    let most = largest(x.dtype());
    let fill = |y: &V, mask: V, v: f64| masked_fill(y, &mask, Scalar::Float(v));
    let y = fill(x, isnan(x)?, nan)?;
    let y = fill(&y, isposinf(x)?, posinf.unwrap_or(most))?;
    fill(&y, isneginf(x)?, neginf.unwrap_or(-most))
}

/// By name: operand x; attributes nan (absent: 0), posinf and neginf (null: the largest and least).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let number = |name| a.maybe(name, Args::f64);
    Ok(vec![nan_to_num(a.input("x")?, number("nan")?.unwrap_or(0.0), number("posinf")?, number("neginf")?)?])
}
