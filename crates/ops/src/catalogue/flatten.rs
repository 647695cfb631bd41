//! flatten: neighbouring axes merged into one. A view if the strides allow it.

use super::reshape;
use crate::prelude::*;

/// `x` with axes `start_dim` to `end_dim` (included) merged into one; a scalar gets shape `[1]`.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or the end is before the start; `OutOfMemory`.
pub fn flatten<V: Value>(x: &V, start_dim: isize, end_dim: isize) -> Result<V> {
    let shape = x.shape();
    let (a, b) = (shape.axis("flatten", start_dim)?, shape.axis("flatten", end_dim)?);
    if shape.rank() == 0 {
        return reshape::to_shape(x, &Shape::new(&[1])?);
    }
    if b < a {
        return Err(Error::argument(format!(
            "flatten: axes {start_dim} to {end_dim} of shape {shape}: the last is before the first"
        )));
    }
    let mut dims = Dims::from_slice(&shape[..a]);
    dims.push(shape[a..=b].iter().product());
    dims.extend_from_slice(&shape[b + 1..]);
    reshape::to_shape(x, &Shape::new(&dims)?)
}

/// All elements in row-major order as one axis.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn all<V: Value>(x: &V) -> Result<V> {
    reshape::to_shape(x, &Shape::new(&[x.shape().numel()])?)
}

/// By name: operand x; attributes start_dim and end_dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![flatten(a.input("x")?, a.dim("start_dim")?, a.dim("end_dim")?)?])
}
