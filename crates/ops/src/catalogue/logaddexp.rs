//! logaddexp: log(e^x + e^y), without overflow.

use super::{add, eq, ge, isinf, logical_and, masked_fill, softplus, sub, where_};
use crate::prelude::*;

/// log(e^x + e^y), elementwise, operands broadcast: the larger one, and the logarithm of 1 + e to
/// the power of minus their distance.
///
/// # Errors
/// `ShapeMismatch` if the shapes do not broadcast; `DTypeMismatch` if they are not of one float
/// type; `DeviceMismatch`; `OutOfMemory`.
pub fn logaddexp<V: Value>(x: &V, y: &V) -> Result<V> {
    autocast!("logaddexp", x, y => logaddexp(x, y));
    widen([x, y], |[x, y]| {
        let first = ge(x, y)?;
        let (high, low) = (where_(&first, x, y)?, where_(&first, y, x)?);
        // The distance of an infinity from itself is 0.
        let same = logical_and(&eq(x, y)?, &isinf(x)?)?;
        let below = masked_fill(&sub(&low, &high)?, &same, Scalar::Int(0))?;
        add(&high, &softplus(&below, 1.0, 20.0)?)
    })
}

/// By name: operands x and y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![logaddexp(a.input("x")?, a.input("y")?)?])
}
