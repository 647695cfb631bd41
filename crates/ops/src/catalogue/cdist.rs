//! cdist: the distances of all pairs of rows. The differences of all pairs are made, so it needs
//! memory for them.

use super::{add, norm, sub, sum, unsqueeze};
use crate::autocast;
use crate::prelude::*;

/// The `p`-norm of the difference of each row of `x` and each row of `y`; batches broadcast.
///
/// x: [.., m, k]   y: [.., n, k]   result: [.., m, n]
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if p is negative or NaN; `DTypeMismatch`; `DeviceMismatch`;
/// `OutOfMemory`.
pub fn cdist<V: Value>(x: &V, y: &V, p: f64) -> Result<V> {
    autocast!("cdist", x, y => cdist(x, y, p));
    let (xs, ys) = (x.shape(), y.shape());
    let fits = xs.rank() >= 2 && ys.rank() >= 2 && xs.last() == ys.last();
    if !fits {
        return Err(Error::shape(format!(
            "cdist: operands of shapes {xs} and {ys}; they must be [.., m, k] and [.., n, k]"
        )));
    }
    distance("cdist", &unsqueeze(x, -2)?, &unsqueeze(y, -3)?, p, 0.0)
}

/// The `p`-norm of x - y + eps over the last axis, with f32 for storage floats.
///
/// # Errors
/// As [`cdist`].
pub(super) fn distance<V: Value>(op: &str, x: &V, y: &V, p: f64, eps: f64) -> Result<V> {
    if p.is_nan() || p < 0.0 {
        return Err(Error::argument(format!("{op}: p is {p}; it must not be negative or NaN")));
    }
    if V::autocast().is_some() {
        return autocast::run(op, [x, y], |[x, y]| distance(op, x, y, p, eps));
    }
    widen([x, y], |[x, y]| {
        let mut d = sub(x, y)?;
        if eps != 0.0 {
            d = add(&d, &d.scalar_like(eps)?)?;
        }
        if p.is_infinite() && d.shape().last() == Some(&0) {
            return sum(&d, Some(&[-1]), false);
        }
        norm(&d, p, Some(&[-1]), false)
    })
}

/// By name: operands x and y; attribute p (absent: 2).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![cdist(a.input("x")?, a.input("y")?, a.maybe("p", Args::f64)?.unwrap_or(2.0))?])
}
