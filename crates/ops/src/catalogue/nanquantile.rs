//! nanquantile: the quantiles of the elements that are not NaN.

use super::quantile::{self, Between};
use crate::prelude::*;

/// As [`quantile`](fn@super::quantile), of the elements that are not NaN; NaN where all are.
///
/// # Errors
/// Those of [`quantile`](fn@super::quantile).
pub fn nanquantile<V: Value>(x: &V, q: &V, dim: Option<isize>, keepdim: bool, between: Between) -> Result<V> {
    quantile::run("nanquantile", x, q, dim, keepdim, between, true)
}

/// By name: operands x and q, or the attribute q, a number or a list; attributes dim (null: all
/// elements), keepdim (absent: false) and interpolation (absent: linear).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    quantile::named(a, true)
}
