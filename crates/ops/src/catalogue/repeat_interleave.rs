//! repeat_interleave: every element of an axis several times, one after the other.

use super::{expand, flatten, reshape, view};
use crate::prelude::*;

/// Every index of axis `dim` of `x` `repeats` times in a row; without `dim`, of the flattened
/// tensor.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn repeat_interleave<V: Value>(x: &V, repeats: usize, dim: Option<isize>) -> Result<V> {
    let (x, axis) = match dim {
        None => (flatten::all(x)?, 0),
        Some(dim) => {
            let axis = x.shape().axis("repeat_interleave", dim)?;
            (if x.shape().rank() == 0 { flatten::all(x)? } else { x.clone() }, axis)
        }
    };
    let mut dims = Dims::from_slice(x.shape());
    dims.insert(axis + 1, 1);
    let apart = reshape::to_shape(&x, &Shape::new(&dims)?)?;
    dims[axis + 1] = repeats;
    let wide = expand(&apart, &Shape::new(&dims)?)?;
    reshape::to_shape(&wide, &view::resized(x.shape(), axis, x.shape()[axis] * repeats)?)
}

/// By name: operand x; attributes repeats and dim (null: the flattened tensor).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![repeat_interleave(a.input("x")?, a.size("repeats")?, a.maybe("dim", Args::dim)?)?])
}
