//! std_mean: the standard deviation and the mean.

use super::{mean, std_};
use crate::prelude::*;

/// The standard deviation over `dims` (all axes if `None` or empty), with divisor max(0, N -
/// correction), and the mean: (standard deviation, mean).
///
/// # Errors
/// Those of [`std_`](fn@super::std_).
pub fn std_mean<V: Value>(x: &V, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<(V, V)> {
    Ok((std_(x, dims, correction, keepdim)?, mean(x, dims, keepdim)?))
}

/// By name: operand x; attributes dim (null, an axis or a list), correction and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    let (std, mean) = std_mean(a.input("x")?, dims.as_deref(), a.f64("correction")?, a.bool("keepdim")?)?;
    Ok(vec![std, mean])
}
