//! cummax: the largest element of an axis up to each one, and where it is; the last one among
//! equals, the last NaN if there is any.

use super::gather::at_least_1d;
use super::{doubling, gather, isnan, le, logical_or, reshape, view, where_};
use crate::prelude::*;

/// Prefix extremes of `x` and their indices. `wins(earlier, later)`: is the later one taken? (NaN
/// always is.)
///
/// # Errors
/// As [`cummax`].
pub(super) fn run<V: Value>(
    op: &str,
    x: &V,
    dim: isize,
    wins: impl Fn(&Array<V::B>, &Array<V::B>) -> Result<Array<V::B>>,
) -> Result<(V, V)> {
    let axis = x.shape().axis(op, dim)?;
    let line = at_least_1d(x)?;
    let n = line.shape()[axis];
    let mut column = Dims::from_elem(1, line.shape().rank());
    column[axis] = n;
    let places: Array<V::B> = view::numbers(line.array(), n, 0..n as i64)?;
    let places = places.reshape(&Shape::new(&column)?)?.broadcast_to(line.shape(), op)?;
    let [_, at] = doubling::scan([line.array().clone(), places], axis, |early, late| {
        let mut later = wins(&early[0], &late[0])?;
        if x.dtype().is_float() {
            later = logical_or(&later, &isnan(&late[0])?)?;
        }
        Ok([where_(&later, &late[0], &early[0])?, where_(&later, &late[1], &early[1])?])
    })?;
    let at = V::from_array(at.contiguous()?);
    let values = gather(&line, axis as isize, &at)?;
    Ok((reshape::to_shape(&values, x.shape())?, reshape::to_shape(&at, x.shape())?))
}

/// The largest element of `x` along `dim` up to each one, and its index (i64): (values, indices).
/// NaN wins; of equal elements the last. The gradient goes to the element at the index.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn cummax<V: Value>(x: &V, dim: isize) -> Result<(V, V)> {
    run("cummax", x, dim, le)
}

/// By name: operand x; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (values, indices) = cummax(a.input("x")?, a.dim("dim")?)?;
    Ok(vec![values, indices])
}
