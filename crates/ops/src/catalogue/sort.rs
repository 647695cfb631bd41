//! sort: the elements of an axis in order. Stable in both directions; NaN is the largest; -0 and +0
//! are equal.

use super::gather::at_least_1d;
use super::{permute, reshape, scatter, view};
use crate::prelude::*;
use crate::rows::rows_last;

/// Values and their original positions (i64), sorted along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    /// The axis.
    pub axis: usize,
    /// Descending?
    pub descending: bool,
    /// The number of elements of each row that are returned; `None`: all.
    pub first: Option<usize>,
}

impl Op for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::OUTPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let order = rows_last(x[0].shape(), &[self.axis]);
        let layout = x[0].layout().permute(&order);
        let mut sizes = Dims::from_slice(layout.shape());
        let n = sizes.last_mut().expect("an op on one axis has one");
        *n = self.first.unwrap_or(*n).min(*n);
        let (values, places) = B::sort(x[0].device(), x[0].view_as(&layout), self.descending, *n)?;
        let shape = Shape::new(&sizes)?;
        let back = permute::inverse(&order);
        let turn = |buffer, dtype| {
            let y = Array::new(x[0].device(), buffer, shape.clone(), dtype);
            y.with_layout(y.layout().permute(&back))
        };
        Ok(Outputs::from_iter([turn(values, x[0].dtype()), turn(places, DType::I64)]))
    }
    /// Each gradient goes back to the position of its value.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let Some(g) = g[0].as_ref() else { return Ok(vec![None]) };
        Ok(vec![Some(scatter(&view::zeros(g, c.shape(0))?, self.axis as isize, c.y(1), g)?)])
    }
}

/// The elements of `x` in order along `dim`, and their indices (i64): (values, indices). Equal
/// elements keep their order, also when `descending`; NaN counts as the largest.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn sort<V: Value>(x: &V, dim: isize, descending: bool) -> Result<(V, V)> {
    run("sort", x, dim, descending, None)
}

/// Sorts for the op of this name, which may need only the first elements of each row.
///
/// # Errors
/// As [`sort`].
pub(super) fn run<V: Value>(
    op: &str,
    x: &V,
    dim: isize,
    descending: bool,
    first: Option<usize>,
) -> Result<(V, V)> {
    let axis = x.shape().axis(op, dim)?;
    let line = at_least_1d(x)?;
    let both = V::apply_many(Sort { axis, descending, first }, &[&line])?;
    if x.shape().rank() > 0 {
        return Ok((both[0].clone(), both[1].clone()));
    }
    Ok((reshape::to_shape(&both[0], x.shape())?, reshape::to_shape(&both[1], x.shape())?))
}

/// By name: operand x; attributes dim and descending.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (values, indices) = sort(a.input("x")?, a.dim("dim")?, a.bool("descending")?)?;
    Ok(vec![values, indices])
}
