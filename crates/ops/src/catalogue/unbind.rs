//! unbind: the indices of an axis as separate tensors. Views.

use super::{reshape, split};
use crate::prelude::*;
use elinvar_core::host::filled;

/// The elements of `x` at each index of axis `dim`, without that axis. Views.
///
/// # Errors
/// `InvalidArgument` if there is no such axis.
pub fn unbind<V: Value>(x: &V, dim: isize) -> Result<Vec<V>> {
    if x.shape().rank() == 0 {
        return Err(Error::argument("unbind: a scalar has no axis to take apart"));
    }
    let axis = x.shape().axis("unbind", dim)?;
    let rest = x.shape().without(&[axis], false);
    let parts = split::sizes(x, &filled(x.shape()[axis], 1)?, dim)?;
    parts.iter().map(|p| reshape::to_shape(p, &rest)).collect()
}

/// By name: operand x; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    unbind(a.input("x")?, a.dim("dim")?)
}
