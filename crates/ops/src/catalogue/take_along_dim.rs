//! take_along_dim: gather, with operands broadcast outside of the axis.

use super::{flatten, gather, view};
use crate::prelude::*;
use crate::value::broadcast;

/// For every element of `index` the element of `x` that it names along `dim`; `x` and `index`
/// broadcast in all other axes, and indices may count from the end. Without `dim`, both are
/// flattened.
///
/// # Errors
/// `ShapeMismatch` if the ranks differ or they do not broadcast; `InvalidArgument` if there is no
/// such axis or an index is not in `-size..size`; `DTypeMismatch` if the index is not of integers;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn take_along_dim<V: Value>(x: &V, index: &V, dim: Option<isize>) -> Result<V> {
    let Some(dim) = dim else {
        return pick(&flatten::all(x)?, 0, &flatten::all(index)?);
    };
    let (xs, is) = (x.shape(), index.shape());
    let axis = xs.axis("take_along_dim", dim)?;
    if xs.rank() != is.rank() {
        return Err(Error::shape(format!(
            "take_along_dim: shape {xs} and index of shape {is}; the ranks must be equal"
        )));
    }
    if xs.rank() == 0 {
        return pick(x, dim, index);
    }
    if is.numel() > 0 && xs.numel() == 0 && xs[axis] > 0 {
        // Broadcast to no elements, an index would no longer be there to be checked.
        pick(&view::zeros(index, &Shape::new(&[xs[axis]])?)?, 0, &flatten::all(index)?)?;
    }
    let common = view::resized(xs, axis, 1)?.broadcast(&view::resized(is, axis, 1)?, "take_along_dim")?;
    let x = broadcast(x, &view::resized(&common, axis, xs[axis])?)?;
    let index = broadcast(index, &view::resized(&common, axis, is[axis])?)?;
    pick(&x, dim, &index)
}

fn pick<V: Value>(x: &V, dim: isize, index: &V) -> Result<V> {
    let index = gather::as_index("take_along_dim", index)?;
    let size = x.shape().get(x.shape().axis("take_along_dim", dim)?).copied().unwrap_or(1);
    gather(x, dim, &gather::wrap(&index, size)?).map_err(|e| e.at("take_along_dim"))
}

/// By name: operands x and index; attribute dim (null: on the flattened tensors).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![take_along_dim(a.input("x")?, a.input("index")?, a.maybe("dim", Args::dim)?)?])
}
