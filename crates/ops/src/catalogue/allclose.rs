//! allclose: are all numbers equal within a tolerance?

use super::{all, isclose};
use crate::prelude::*;

/// Is every pair of elements close, as in [`isclose`](fn@super::isclose)? A bool of shape [].
///
/// # Errors
/// Those of [`isclose`](fn@super::isclose).
pub fn allclose<V: Value>(x: &V, y: &V, rtol: f64, atol: f64, equal_nan: bool) -> Result<V> {
    let each = isclose(x, y, rtol, atol, equal_nan).map_err(|e| e.at("allclose"))?;
    all(&each, None, false)
}

/// By name: operands x and y; attributes rtol, atol and equal_nan (absent: 1e-5, 1e-8, false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (rtol, atol, equal_nan) = isclose::attributes(a)?;
    Ok(vec![allclose(a.input("x")?, a.input("y")?, rtol, atol, equal_nan)?])
}
