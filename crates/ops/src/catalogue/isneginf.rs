//! isneginf: true where x is -inf.

use super::comparison::{Comparison, with_number};
use crate::prelude::*;

/// Is x -inf? (bool), elementwise. No integer is.
///
/// # Errors
/// `OutOfMemory`.
pub fn isneginf<V: Value>(x: &V) -> Result<V> {
    with_number(Comparison::Eq, x, Scalar::Float(f64::NEG_INFINITY))
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![isneginf(a.input("x")?)?])
}
