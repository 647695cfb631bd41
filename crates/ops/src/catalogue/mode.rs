//! mode: the most frequent element of an axis; of several the smallest.
//!
//! In sorted order an element's count so far is its distance from the last place at which a new one
//! began. NaN differs from itself.

use super::gather::at_least_1d;
use super::{add, argmax, concat, doubling, gather, kthvalue, maximum, narrow, ne, sort, sub, sum, view, where_};
use crate::prelude::*;

/// The most frequent element of `x` along `dim`, and the index (i64) of the last one that equals
/// it: (values, indices). The gradient goes to the element at the index.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or it is empty; `OutOfMemory`.
pub fn mode<V: Value>(x: &V, dim: isize, keepdim: bool) -> Result<(V, V)> {
    let axis = x.shape().axis("mode", dim)?;
    let line = at_least_1d(x)?;
    sum::not_empty("mode", line.shape(), &[axis])?;
    let (sorted, order) = sort(line.array(), axis as isize, false)?;
    let n = line.shape()[axis];
    let mut column = Dims::from_elem(1, line.shape().rank());
    column[axis] = n;
    let places: Array<V::B> = view::numbers(&sorted, n, 0..n as i64)?;
    let places = places.reshape(&Shape::new(&column)?)?.broadcast_to(sorted.shape(), "mode")?;
    let zero = places.scalar_like(0i64)?;
    let part = |start: usize| narrow::run(&sorted, axis, start, n - 1);
    let begins = where_(&ne(&part(1)?, &part(0)?)?, &narrow::run(&places, axis, 1, n - 1)?, &zero)?;
    let first = narrow::run(&places, axis, 0, 1)?;
    let begins = concat(&[&first, &begins], axis as isize)?;
    let [begin] = doubling::scan([begins], axis, |e, l| Ok([maximum(&e[0], &l[0])?]))?;
    let count = add(&sub(&places, &begin)?, &places.scalar_like(1i64)?)?;
    let best = argmax(&count, Some(axis as isize), true)?;
    let index = V::from_array(gather(&order, axis as isize, &best)?);
    kthvalue::at(x, &line, axis, &index, keepdim)
}

/// By name: operand x; attributes dim (absent: -1) and keepdim (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dim = a.maybe("dim", Args::dim)?.unwrap_or(-1);
    let (values, indices) = mode(a.input("x")?, dim, a.maybe("keepdim", Args::bool)?.unwrap_or(false))?;
    Ok(vec![values, indices])
}
