//! sum: the sum over some axes, in the canonical order. Empty: 0. Integers and bool sum to i64.

use super::{expand, reshape};
use crate::fold::{self, Folding};
use crate::prelude::*;
use crate::rows::rows_last;

/// A sum of floats over `axes`, which stay with size 1. (Sums of integers have no gradients, and
/// need no op.)
#[derive(Clone, Debug)]
pub struct Sum {
    /// The reduced axes.
    pub axes: Dims,
}

impl Op for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([fold(fold::FloatSum, x[0], &self.axes)?]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a sum has one result");
        Ok(vec![Some(expand(g, c.shape(0))?)])
    }
}

/// Folds an array over `axes`, which stay with size 1.
pub(crate) fn fold<B: Backend, F: Folding>(_: F, x: &Array<B>, axes: &[usize]) -> Result<Array<B>> {
    let to = match F::FOLD {
        Fold::Sum | Fold::Prod if !x.dtype().is_float() => DType::I64,
        Fold::Sum | Fold::Prod | Fold::Max | Fold::Min => x.dtype(),
    };
    let layout = x.layout().permute(&rows_last(x.shape(), axes));
    let buffer = B::fold::<F>(x.device(), x.view_as(&layout), x.shape().rank() - axes.len(), to)?;
    Ok(Array::new(x.device(), buffer, x.shape().without(axes, true), to))
}

/// The axes that `dims` names; all of them if `dims` is `None` or names none.
///
/// # Errors
/// `InvalidArgument` if there is no such axis or one is named twice.
pub fn axes(op: &str, shape: &Shape, dims: Option<&[isize]>) -> Result<Dims> {
    let mut axes = match dims {
        None | Some([]) => (0..shape.rank()).collect(),
        Some(dims) => shape.axes(op, dims)?,
    };
    axes.retain(|a| *a < shape.rank());
    Ok(axes)
}

/// The number of elements in a row, that is along `axes`.
pub(super) fn row_len(shape: &Shape, axes: &[usize]) -> usize {
    axes.iter().map(|&a| shape[a]).product()
}

/// Axes as a list for public functions. For them an empty list means all axes, which is the same
/// only for a scalar.
pub(super) fn as_dims(axes: &[usize]) -> elinvar_core::layout::Strides {
    axes.iter().map(|&a| a as isize).collect()
}

/// Checks that rows along `axes` are not empty, for a fold that has no identity.
///
/// # Errors
/// `InvalidArgument` if they are.
pub(super) fn not_empty(op: &str, shape: &Shape, axes: &[usize]) -> Result<()> {
    match axes.iter().find(|&&a| shape[a] == 0) {
        None => Ok(()),
        Some(a) => {
            Err(Error::argument(format!("{op}: axis {a} of shape {shape} is empty and {op} has no identity")))
        }
    }
}

/// Drops the axes of size 1 after a reduction, unless `keepdim`.
///
/// # Errors
/// `OutOfMemory`.
pub fn drop_axes<V: Value>(y: V, axes: &[usize], keepdim: bool) -> Result<V> {
    if keepdim || axes.is_empty() {
        return Ok(y);
    }
    let shape = y.shape().without(axes, false);
    reshape::to_shape(&y, &shape)
}

/// The sum over `dims` (all axes if `None` or empty). Integers and bool sum to i64.
///
/// # Errors
/// `InvalidArgument` if there is no such axis; `OutOfMemory`.
pub fn sum<V: Value>(x: &V, dims: Option<&[isize]>, keepdim: bool) -> Result<V> {
    let axes = axes("sum", x.shape(), dims)?;
    drop_axes(over(x, &axes)?, &axes, keepdim)
}

/// The sum of any dtype over `axes`, which stay with size 1.
fn over<V: Value>(x: &V, axes: &Dims) -> Result<V> {
    if x.dtype().is_float() {
        V::apply(Sum { axes: axes.clone() }, &[x])
    } else {
        Ok(V::from_array(fold(fold::Sum, x.array(), axes)?))
    }
}

/// The opposite of broadcasting: the sum over the axes along which `shape` was repeated to that of
/// `x`.
///
/// # Errors
/// `ShapeMismatch` if `shape` does not broadcast to that of `x`.
pub fn sum_to<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    summed_to(x, shape, |axes| over(x, &axes))
}

/// The same for floats alone, as gradients are: an op does not link integer sums for its gradient.
///
/// # Errors
/// As [`sum_to`].
pub fn gradient_to<V: Value>(x: &V, shape: &Shape) -> Result<V> {
    summed_to(x, shape, |axes| V::apply(Sum { axes }, &[x]))
}

fn summed_to<V: Value>(x: &V, shape: &Shape, sum: impl FnOnce(Dims) -> Result<V>) -> Result<V> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let Some(new) = x.shape().rank().checked_sub(shape.rank()) else {
        return Err(Error::shape(format!("sum_to: shape {} cannot be summed to {shape}", x.shape())));
    };
    let axes: Dims =
        (0..x.shape().rank()).filter(|&i| i < new || (shape[i - new] == 1 && x.shape()[i] != 1)).collect();
    let y = sum(axes)?;
    let fits = y.shape()[new..] == shape[..];
    if !fits {
        return Err(Error::shape(format!("sum_to: shape {} cannot be summed to {shape}", x.shape())));
    }
    reshape::to_shape(&y, shape)
}

/// By name: operand x; attributes dim (null, an axis or a list) and keepdim; and dtype
/// (null: its own), in which it runs.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let dims = a.maybe("dim", Args::dims)?;
    Ok(vec![sum(&a.converted()?, dims.as_deref(), a.bool("keepdim")?)?])
}
