//! addcdiv: x + value * t1 / t2.

use super::{add, div::div, mul};
use crate::prelude::*;

/// x + value * t1 / t2, elementwise, operands broadcast. Storage floats run in f32 and are rounded
/// once.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch` if they are not of one float
/// type; `DeviceMismatch`; `OutOfMemory`.
pub fn addcdiv<V: Value>(x: &V, t1: &V, t2: &V, value: f64) -> Result<V> {
    autocast!("addcdiv", x, t1, t2 => addcdiv(x, t1, t2, value));
    widen([x, t1, t2], |[x, t1, t2]| {
        let scaled = if value == 1.0 { t1.clone() } else { mul(t1, &t1.scalar_like(value)?)? };
        add(x, &div(&scaled, t2)?)
    })
}

/// By name: operands x, t1 and t2; attribute value (absent: 1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let value = a.maybe("value", Args::f64)?.unwrap_or(1.0);
    Ok(vec![addcdiv(a.input("x")?, a.input("t1")?, a.input("t2")?, value)?])
}
