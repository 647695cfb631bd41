//! unique: the distinct elements (or slices) in ascending order, the index of each element among
//! them, and their counts.
//!
//! Neighbours are compared after sorting; NaN differs from itself, -0 equals +0. Slices are put in
//! lexicographic order by one stable sort for each of their elements, from the last to the first,
//! so long slices are slow. The size of the result depends on the values, so this synchronises with
//! the device. No gradient.

use super::view::{self, Run};
use super::{
    any, argsort, concat, cumsum, flatten, gather, index_select, movedim, narrow, ne, nonzero, reshape,
    scatter, slice, sort, sub,
};
use crate::prelude::*;

/// The result of [`unique`].
#[derive(Clone, Debug)]
pub struct Unique<V> {
    /// The distinct elements or slices, ascending.
    pub values: V,
    /// For each element or slice of the operand its index in `values` (i64).
    pub inverse: V,
    /// How often each of `values` occurs (i64).
    pub counts: V,
}

/// The distinct elements of `x`, flattened, or with `dim` the distinct slices along that axis in
/// lexicographic order.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or the slices are empty and there are some;
/// `OutOfMemory`.
pub fn unique<V: Value>(x: &V, dim: Option<isize>) -> Result<Unique<V>> {
    run("unique", x, dim, true)
}

/// Runs the op of this name, after sorting or without.
///
/// # Errors
/// As [`unique`].
pub(super) fn run<V: Value>(op: &str, x: &V, dim: Option<isize>, sorted: bool) -> Result<Unique<V>> {
    // Nothing here has a gradient, so nothing needs to be recorded.
    let u = match dim {
        None => elements(x.array(), sorted)?,
        Some(dim) => slices(op, x.array(), dim, sorted)?,
    };
    let [values, inverse, counts] = [u.values, u.inverse, u.counts].map(V::from_array);
    Ok(Unique { values, inverse, counts })
}

fn elements<B: Backend>(x: &Array<B>, sorted: bool) -> Result<Unique<Array<B>>> {
    let (flat, n) = (flatten::all(x)?, x.shape().numel());
    let (sorted, order) =
        if sorted { sort(&flat, 0, false)? } else { (flat, view::numbers(x, n, 0..n as i64)?) };
    let fresh = match n {
        0 => None,
        _ => Some(ne(&narrow::run(&sorted, 0, 1, n - 1)?, &narrow::run(&sorted, 0, 0, n - 1)?)?),
    };
    let (starts, inverse, counts) = groups(x, fresh, &order)?;
    Ok(Unique {
        values: index_select(&sorted, 0, &starts)?,
        inverse: reshape::to_shape(&inverse, x.shape())?,
        counts,
    })
}

fn slices<B: Backend>(op: &str, x: &Array<B>, dim: isize, sorted: bool) -> Result<Unique<Array<B>>> {
    let axis = x.shape().axis(op, dim)?;
    let x = &gather::at_least_1d(x)?;
    let front = movedim(x, &[axis as isize], &[0])?;
    let n = front.shape()[0];
    let length: usize = front.shape()[1..].iter().product();
    if length == 0 && n > 0 {
        return Err(Error::argument(format!(
            "{op}: slices of shape {} along axis {axis} are empty",
            x.shape()
        )));
    }
    let mut rows = reshape::to_shape(&front, &Shape::new(&[n, length])?)?;
    let mut order: Array<B> = view::numbers(x, n, 0..n as i64)?;
    let columns = if sorted { length } else { 0 };
    for column in (0..columns).rev() {
        let by = argsort(&super::select(&rows, 1, column as isize)?, 0, false)?;
        rows = index_select(&rows, 0, &by)?;
        order = gather(&order, 0, &by)?;
    }
    let neighbours = |start: usize| slice::runs(&rows, &[Run { start, len: n - 1, step: 1 }]);
    let fresh = match n {
        0 => None,
        _ => Some(any(&ne(&neighbours(1)?, &neighbours(0)?)?, Some(&[1]), false)?),
    };
    let (starts, inverse, counts) = groups(x, fresh, &order)?;
    let values = index_select(&rows, 0, &starts)?;
    let shape = view::resized(front.shape(), 0, starts.shape().numel())?;
    let values = movedim(&reshape::to_shape(&values, &shape)?, &[0], &[axis as isize])?;
    Ok(Unique { values, inverse, counts })
}

/// The starts of groups of equal elements in a sorted row, the group of each element before
/// sorting, and the sizes of the groups. `fresh` states for all but the first whether it differs
/// from its left neighbour; none for an empty row.
fn groups<B: Backend>(
    like: &Array<B>,
    fresh: Option<Array<B>>,
    order: &Array<B>,
) -> Result<(Array<B>, Array<B>, Array<B>)> {
    let Some(fresh) = fresh else {
        let none = view::numbers(like, 0, [])?;
        return Ok((none.clone(), none.clone(), none));
    };
    let first = Array::full(like.device(), &Shape::new(&[1])?, Scalar::Bool(true), DType::Bool)?;
    let fresh = concat(&[&first, &fresh], 0)?;
    let starts = nonzero::numbers(&fresh)?;
    let n: Array<B> = view::numbers(like, 1, [fresh.shape().numel() as i64])?;
    let ends = concat(&[&narrow::run(&starts, 0, 1, starts.shape().numel() - 1)?, &n], 0)?;
    let group = sub(&cumsum(&fresh, 0)?, &starts.scalar_like(1i64)?)?;
    let inverse = scatter(&view::zeros(order, order.shape())?, 0, order, &group)?;
    Ok((starts.clone(), inverse, sub(&ends, &starts)?))
}

/// By name: operand x; attribute dim (null: the flattened tensor).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let u = unique(a.input("x")?, a.maybe("dim", Args::dim)?)?;
    Ok(vec![u.values, u.inverse, u.counts])
}
