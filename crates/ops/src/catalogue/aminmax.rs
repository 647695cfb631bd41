//! aminmax: the smallest and the largest element.

use super::{amax, amin};
use crate::prelude::*;

/// The smallest and the largest element of `x` along `dim`, or of all: (least, largest). NaN wins.
/// Equal elements share the gradients equally.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn aminmax<V: Value>(x: &V, dim: Option<isize>, keepdim: bool) -> Result<(V, V)> {
    let dims = dim.as_ref().map(std::slice::from_ref);
    let run = |f: fn(&V, Option<&[isize]>, bool) -> Result<V>| f(x, dims, keepdim).map_err(|e| e.at("aminmax"));
    Ok((run(amin)?, run(amax)?))
}

/// By name: operand x; attributes dim (null: all axes) and keepdim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (least, largest) = aminmax(a.input("x")?, a.maybe("dim", Args::dim)?, a.bool("keepdim")?)?;
    Ok(vec![least, largest])
}
