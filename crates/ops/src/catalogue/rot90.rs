//! rot90: quarter turns of the plane of two axes. A view.

use super::{flip, transpose};
use crate::prelude::*;

/// `x` turned by `k` quarters from axis `dims[0]` towards axis `dims[1]`. A view.
///
/// # Errors
/// `InvalidArgument` if `dims` are not two different axes.
pub fn rot90<V: Value>(x: &V, k: isize, dims: &[isize]) -> Result<V> {
    let axes = x.shape().axes("rot90", dims)?;
    let [a, b] = axes[..] else {
        return Err(Error::argument(format!("rot90: axes {dims:?}; they must be two")));
    };
    let (a, b) = (a as isize, b as isize);
    match k.rem_euclid(4) {
        0 => Ok(x.clone()),
        1 => transpose(&flip(x, &[b])?, a, b),
        2 => flip(x, &[a, b]),
        _ => transpose(&flip(x, &[a])?, a, b),
    }
}

/// By name: operand x; attributes k (absent: 1) and dims (absent: [0, 1]).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let k = a.maybe("k", Args::dim)?.unwrap_or(1);
    let dims = a.maybe("dims", Args::dims)?.unwrap_or_else(|| vec![0, 1]);
    Ok(vec![rot90(a.input("x")?, k, &dims)?])
}
