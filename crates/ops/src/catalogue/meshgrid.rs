//! meshgrid: the coordinates of a grid from those of its axes. Views.

use super::{expand, reshape, transpose};
use crate::prelude::*;

/// For vectors (or scalars) `x` the tensors of one common shape [n0, n1, ..] of which number `i`
/// varies along axis `i` only. With `xy` the first two axes of the results are swapped, as plotting
/// programs like it. Views.
///
/// # Errors
/// `ShapeMismatch` if an operand has more than one axis; `OutOfMemory` if the grid has too many
/// points.
pub fn meshgrid<V: Value>(x: &[&V], xy: bool) -> Result<Vec<V>> {
    if let Some(v) = x.iter().find(|v| v.shape().rank() > 1) {
        return Err(Error::shape(format!("meshgrid: an operand has shape {}; axes are vectors", v.shape())));
    }
    let sizes: Dims = x.iter().map(|v| v.shape().numel()).collect();
    let grid = Shape::new(&sizes)?;
    let one = |(i, v): (usize, &&V)| {
        let mut dims = Dims::from_elem(1, x.len());
        dims[i] = sizes[i];
        let y = expand(&reshape::to_shape(*v, &Shape::new(&dims)?)?, &grid)?;
        if xy && x.len() >= 2 { transpose(&y, 0, 1) } else { Ok(y) }
    };
    x.iter().enumerate().map(one).collect()
}

/// By name: operands x0, x1, ..; attribute indexing, "ij" or "xy".
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    match a.str("indexing")? {
        "ij" => meshgrid(&a.all("x"), false),
        "xy" => meshgrid(&a.all("x"), true),
        other => Err(Error::argument(format!("meshgrid: indexing {other}; there are ij and xy"))),
    }
}
