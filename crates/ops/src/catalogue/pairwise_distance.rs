//! pairwise_distance: the distance of each row from the other operand's row.

use super::{cdist, unsqueeze};
use crate::prelude::*;

/// The `p`-norm of x - y + eps over the last axis of the broadcast operands, which stays with size
/// 1 if `keepdim`.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if p is negative or NaN; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn pairwise_distance<V: Value>(x: &V, y: &V, p: f64, eps: f64, keepdim: bool) -> Result<V> {
    if x.shape().broadcast(y.shape(), "pairwise_distance")?.rank() == 0 {
        return Err(Error::shape("pairwise_distance: scalars are no rows; there must be an axis"));
    }
    let d = cdist::distance("pairwise_distance", x, y, p, eps)?;
    if keepdim { unsqueeze(&d, -1) } else { Ok(d) }
}

/// By name: operands x and y; attributes p (absent: 2), eps (absent: 1e-6) and keepdim (absent:
/// false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let number = |name, default| Ok::<_, Error>(a.maybe(name, Args::f64)?.unwrap_or(default));
    let keepdim = a.maybe("keepdim", Args::bool)?.unwrap_or(false);
    let (x, y) = (a.input("x")?, a.input("y")?);
    Ok(vec![pairwise_distance(x, y, number("p", 2.0)?, number("eps", 1e-6)?, keepdim)?])
}
