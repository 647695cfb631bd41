//! searchsorted: the insertion positions of values in sorted rows. No gradient.
//!
//! Both are sorted together, stably, with the operand first that precedes among equals; the number
//! of sorted elements before a value is then a prefix sum.

use super::{argsort, concat, cumsum, flatten, gather, lt, reshape, scatter, view};
use crate::prelude::*;
use crate::value::cast;

/// For each of `values` the number (i64) of elements of its row of `sorted` that are smaller (or
/// not larger, if `right`). `sorted` must be in ascending order along its last axis, the row.
///
/// sorted: \[n\], one row for values of any shape; or [.., n] and values [.., m]   y: as values
///
/// # Errors
/// `ShapeMismatch` if `sorted` is a scalar, or of several rows and other leading axes than
/// `values`; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn searchsorted<V: Value>(sorted: &V, values: &V, right: bool) -> Result<V> {
    let (s, v) = (sorted.array(), values.array());
    if s.shape().rank() == 1 && v.shape().rank() != 1 {
        let places = searchsorted(sorted, &flatten::all(values)?, right)?;
        return reshape::to_shape(&places, v.shape());
    }
    let (Some(&n), Some(&m)) = (s.shape().last(), v.shape().last()) else {
        return Err(Error::shape(format!(
            "searchsorted: sorted {} and values {}; sorted must be a row, or have the leading axes of values",
            s.shape(),
            v.shape()
        )));
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

/// The same for rows that are in ascending order when read in that of `sorter`, an index of each.
///
/// # Errors
/// As [`searchsorted`]; `InvalidArgument` if an index is not in `0..n`.
pub fn by<V: Value>(rows: &V, sorter: &V, values: &V, right: bool) -> Result<V> {
    if rows.shape() != sorter.shape() {
        return Err(Error::shape(format!(
            "searchsorted: a sorter of shape {} for rows of shape {}; they must be equal",
            sorter.shape(),
            rows.shape()
        )));
    }
    let sorted = gather(&rows.detached(), -1, sorter).map_err(|e| e.at("searchsorted"))?;
    searchsorted(&sorted, values, right)
}

/// By name: operands sorted, values, and sorter if there is one; attribute right.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (sorted, values, right) = (a.input("sorted")?, a.input("values")?, a.bool("right")?);
    Ok(vec![match a.optional("sorter") {
        Some(sorter) => by(sorted, sorter, values, right)?,
        None => searchsorted(sorted, values, right)?,
    }])
}
