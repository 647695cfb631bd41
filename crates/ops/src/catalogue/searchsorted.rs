//! searchsorted: the insertion positions of values in sorted rows. No gradient.
//!
//! Both are sorted together, stably, with the operand first that precedes among equals; the number
//! of sorted elements before a value is then a prefix sum.

use super::{argsort, concat, cumsum, lt, scatter, view};
use crate::prelude::*;
use crate::value::cast;

/// For each of `values` the number (i64) of elements of its row of `sorted` that are smaller (or
/// not larger, if `right`). Both have the same leading axes; the last one is the row. `sorted` must
/// be in ascending order.
///
/// # Errors
/// `ShapeMismatch` if the leading axes differ or there is no row; `DTypeMismatch`;
/// `DeviceMismatch`; `OutOfMemory`.
pub fn searchsorted<V: Value>(sorted: &V, values: &V, right: bool) -> Result<V> {
    let (s, v) = (sorted.array(), values.array());
    let (Some(&n), Some(&m)) = (s.shape().last(), v.shape().last()) else {
        return Err(Error::shape("searchsorted: a scalar has no row; both operands must have an axis"));
    };
    if s.shape()[..s.shape().rank() - 1] != v.shape()[..v.shape().rank() - 1] {
        return Err(Error::shape(format!(
            "searchsorted: rows of shape {} and values of shape {}; all axes but the last must agree",
            s.shape(),
            v.shape()
        )));
    }
    view::same_dtype("searchsorted", &[s, v])?;
    let (both, first_value) = if right { (concat(&[s, v], -1)?, n) } else { (concat(&[v, s], -1)?, 0) };
    let order = argsort(&both, -1, false)?;
    // Which of the sorted positions hold one of `sorted`, and how many of these there are up to
    // each.
    let bound = order.scalar_like(if right { n } else { m })?;
    let is_row = if right { lt(&order, &bound)? } else { super::le(&bound, &order)? };
    let count = cumsum(&cast(&is_row, DType::I64)?, -1)?;
    let by_place = scatter(&view::zeros(&order, order.shape())?, -1, &order, &count)?;
    Ok(V::from_array(super::narrow(&by_place, -1, first_value as isize, m)?))
}

/// By name: operands sorted and values; attribute right.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![searchsorted(a.input("sorted")?, a.input("values")?, a.bool("right")?)?])
}
