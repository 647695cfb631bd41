//! stack: tensors of one shape joined along a new axis.

use super::view::{self, Part};
use crate::autocast;
use crate::prelude::*;

/// The tensors `x`, all of one shape, along a new axis `dim` of the result.
///
/// # Errors
/// `InvalidArgument` if there is no tensor or no such axis; `ShapeMismatch`; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn stack<V: Value>(x: &[&V], dim: isize) -> Result<V> {
    if V::autocast().is_some() {
        return autocast::run_all("stack", x, |x| stack(x, dim));
    }
    view::same_dtype("stack", x)?;
    let shape = x[0].shape();
    if let Some((i, v)) = x.iter().enumerate().find(|(_, v)| v.shape() != shape) {
        return Err(Error::shape(format!(
            "stack: operand 0 has shape {shape}, operand {i} has {}; they must be equal",
            v.shape()
        )));
    }
    let axis = elinvar_core::shape::axis("stack", dim, shape.rank() + 1, shape)?;
    let mut dims = Dims::from_slice(shape);
    dims.insert(axis, x.len());
    let parts = (0..x.len()).map(|index| Part::Select { axis, index }).collect();
    view::assemble(x, &Shape::new(&dims)?, Scalar::Int(0), parts)
}

/// By name: operands x0, x1, ..; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![stack(&a.all("x"), a.dim("dim")?)?])
}
