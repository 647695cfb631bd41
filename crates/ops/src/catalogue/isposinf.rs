//! isposinf: true where x is +inf.

use super::comparison::{Comparison, with_number};
use crate::prelude::*;

/// Is x +inf? (bool), elementwise. No integer is.
///
/// # Errors
/// `OutOfMemory`.
pub fn isposinf<V: Value>(x: &V) -> Result<V> {
    with_number(Comparison::Eq, x, Scalar::Float(f64::INFINITY))
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![isposinf(a.input("x")?)?])
}
