//! repeat_interleave: every element of an axis several times, one after the other.

use super::gather::as_index;
use super::{expand, flatten, index_select, reshape, view};
use crate::prelude::*;
use crate::recording;

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

/// Every index `i` of axis `dim` of `x` `repeats[i]` times in a row; without `dim`, of the
/// flattened tensor. The vector `repeats` of integers may have one element for all. It is read, so
/// this synchronises with the device.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or a number is negative; `ShapeMismatch` if there are
/// not as many as indices; `DTypeMismatch`; `OutOfMemory`.
pub fn by<V: Value>(x: &V, repeats: &V, dim: Option<isize>) -> Result<V> {
    let axis = dim.map_or(Ok(0), |dim| x.shape().axis("repeat_interleave", dim))?;
    let x = if dim.is_none() || x.shape().rank() == 0 { flatten::all(x)? } else { x.clone() };
    let n = x.shape()[axis];
    let counts = as_index("repeat_interleave", repeats)?;
    let fits = match counts.shape()[..] {
        [] | [1] => true,
        [m] => m == n,
        _ => false,
    };
    if !fits {
        return Err(Error::shape(format!(
            "repeat_interleave: repeats of shape {} for {n} indices; they must be a vector of as many, or of one",
            repeats.shape()
        )));
    }
    recording::refuse("repeat_interleave: reading repeats")?;
    let host = counts.array().to_host()?;
    let counts = host.as_slice::<i64>()?;
    let one = |i: usize| counts[if counts.len() == 1 { 0 } else { i }];
    let mut total = 0usize;
    for i in 0..n {
        let count = usize::try_from(one(i)).map_err(|_| {
            Error::argument(format!("repeat_interleave: {} repeats of index {i}; it must not be negative", one(i)))
        })?;
        total = total.checked_add(count).ok_or_else(|| Error::memory("repeat_interleave: too many elements"))?;
    }
    let at = (0..n).flat_map(|i| std::iter::repeat_n(i as i64, one(i) as usize));
    index_select(&x, axis as isize, &view::numbers(&x, total, at)?)
}

/// By name: operand x, and repeats if that is no number; attributes repeats and dim (null: the
/// flattened tensor).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, dim) = (a.input("x")?, a.maybe("dim", Args::dim)?);
    Ok(vec![match a.optional("repeats") {
        Some(repeats) => by(x, repeats, dim)?,
        None => repeat_interleave(x, a.size("repeats")?, dim)?,
    }])
}
