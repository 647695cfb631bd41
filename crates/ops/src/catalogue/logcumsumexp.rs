//! logcumsumexp: the logarithm of the sums of e^x up to each element, by doubling.

use super::gather::at_least_1d;
use super::{doubling, logaddexp, reshape};
use crate::prelude::*;

/// log(sum of e^x) along `dim` up to each element of `x`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `DTypeMismatch` if x is not of floats;
/// `OutOfMemory`.
pub fn logcumsumexp<V: Value>(x: &V, dim: isize) -> Result<V> {
    let axis = x.shape().axis("logcumsumexp", dim)?;
    if !x.dtype().is_float() {
        return Err(Error::dtype(format!("logcumsumexp: {} are no floats; convert them", x.dtype())));
    }
    widen([x], |[x]| {
        let [y] = doubling::scan([at_least_1d(x)?], axis, |e, l| Ok([logaddexp(&e[0], &l[0])?]))?;
        reshape::to_shape(&y, x.shape())
    })
}

/// By name: operand x; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![logcumsumexp(a.input("x")?, a.dim("dim")?)?])
}
