//! signbit: true where x is negative; also for -0. NaN has no sign.

use super::comparison::{Comparison, with_number};
use super::{copysign, eq, logical_and};
use crate::prelude::*;

/// Has x a minus sign? (bool), elementwise; false for NaN.
///
/// # Errors
/// `OutOfMemory`.
pub fn signbit<V: Value>(x: &V) -> Result<V> {
    let negative = |x: &V| with_number(Comparison::Lt, x, Scalar::Int(0));
    if !x.dtype().is_float() {
        return negative(x);
    }
    let x = x.detached();
    logical_and(&negative(&copysign(&x.scalar_like(1.0)?, &x)?)?, &eq(&x, &x)?)
}

/// By name: operand x.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![signbit(a.input("x")?)?])
}
