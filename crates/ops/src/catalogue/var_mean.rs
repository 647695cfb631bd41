//! var_mean: the variance and the mean.

use super::{mean, var};
use crate::prelude::*;

/// The variance over `dims` (all axes if `None` or empty), with divisor max(0, N - correction), and
/// the mean: (variance, mean).
///
/// # Errors
/// Those of [`var`](fn@super::var).
pub fn var_mean<V: Value>(x: &V, dims: Option<&[isize]>, correction: f64, keepdim: bool) -> Result<(V, V)> {
    Ok((var(x, dims, correction, keepdim)?, mean(x, dims, keepdim)?))
}

/// By name: operand x; attributes dim (null, an axis or a list), correction and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    let (var, mean) = var_mean(a.input("x")?, dims.as_deref(), a.f64("correction")?, a.bool("keepdim")?)?;
    Ok(vec![var, mean])
}
