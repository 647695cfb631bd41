//! diff: differences of neighbours along an axis.

use super::{concat, logical_xor, narrow, sub};
use crate::prelude::*;

/// `x[i + 1] - x[i]` along `dim`, `n` times; of bool: do they differ? First `prepend` and `append`
/// are put before and behind `x`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or x is a scalar; `ShapeMismatch`; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn diff<V: Value>(x: &V, n: usize, dim: isize, prepend: Option<&V>, append: Option<&V>) -> Result<V> {
    if x.shape().rank() == 0 {
        return Err(Error::argument("diff: a scalar has no neighbours; it must have an axis"));
    }
    let axis = x.shape().axis("diff", dim)?;
    let parts: Vec<&V> = prepend.into_iter().chain([x]).chain(append).collect();
    let mut y = if parts.len() == 1 { x.clone() } else { concat(&parts, dim).map_err(|e| e.at("diff"))? };
    for _ in 0..n.min(y.shape()[axis] + 1) {
        let left = y.shape()[axis].saturating_sub(1);
        let part = |start: usize| narrow::run(&y, axis, start.min(y.shape()[axis]), left);
        let (late, early) = (part(1)?, part(0)?);
        y = if y.dtype() == DType::Bool { logical_xor(&late, &early)? } else { sub(&late, &early)? };
    }
    Ok(y)
}

/// By name: operands x, prepend and append, the last two optional; attributes n (absent: 1) and dim
/// (absent: -1).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let n = a.maybe("n", Args::size)?.unwrap_or(1);
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(-1);
    Ok(vec![diff(a.input("x")?, n, dim, a.optional("prepend"), a.optional("append"))?])
}
