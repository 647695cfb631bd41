//! unsqueeze: a new axis of size 1. A view.

use super::reshape;
use crate::prelude::*;

/// `x` with a new axis of size 1 at `dim` of the result. A view.
///
/// # Errors
/// `InvalidArgument` if `dim` is not in `-(rank + 1)..=rank`.
pub fn unsqueeze<V: Value>(x: &V, dim: isize) -> Result<V> {
    let shape = x.shape();
    let axis = elinvar_core::shape::axis("unsqueeze", dim, shape.rank() + 1, shape)?;
    let mut dims = Dims::from_slice(shape);
    dims.insert(axis, 1);
    reshape::to_shape(x, &Shape::new(&dims)?)
}

/// By name: operand x; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![unsqueeze(a.input("x")?, a.dim("dim")?)?])
}
