//! tensordot: a contraction over chosen axes of two tensors.

use super::matmul::Matmul;
use super::{permute, reshape, sum};
use crate::prelude::*;
use crate::rows::rows_last;
use crate::value::broadcast;

/// The sum over axis `dims_x[i]` of `x` together with axis `dims_y[i]` of `y`, for all `i`; the
/// result has the other axes of `x`, then those of `y`. An axis of size 1 broadcasts.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, one is named twice, or the lists differ in length;
/// `ShapeMismatch` if the sizes differ; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn tensordot<V: Value>(x: &V, y: &V, dims_x: &[isize], dims_y: &[isize]) -> Result<V> {
    autocast!("tensordot", x, y => tensordot(x, y, dims_x, dims_y));
    let (xs, ys) = (x.shape(), y.shape());
    if dims_x.len() != dims_y.len() {
        return Err(Error::argument(format!(
            "tensordot: axes {dims_x:?} and {dims_y:?}; both lists must be of one length"
        )));
    }
    let (ax, ay) = (xs.axes("tensordot", dims_x)?, ys.axes("tensordot", dims_y)?);
    let scalar = !dims_x.is_empty() && (xs.rank() == 0 || ys.rank() == 0);
    if scalar || ax.iter().zip(&ay).any(|(&a, &b)| xs[a] != ys[b] && xs[a] != 1 && ys[b] != 1) {
        return Err(Error::shape(format!(
            "tensordot: axes {dims_x:?} of shape {xs} and {dims_y:?} of shape {ys} differ in size; they must be equal, or \
             one of them 1"
        )));
    }
    let grown = |v: &V, axes: &Dims, other: &Shape, others: &Dims| {
        let mut dims = Dims::from_slice(v.shape());
        axes.iter().zip(others).filter(|(a, b)| v.shape()[**a] == 1 && other[**b] != 1).for_each(|(&a, &b)| dims[a] = other[b]);
        broadcast(v, &Shape::new(&dims)?)
    };
    let (x, y) = (&grown(x, &ax, ys, &ay)?, &grown(y, &ay, xs, &ax)?);
    let (xs, ys) = (x.shape(), y.shape());
    let (k, m) = (sum::row_len(xs, &ax), xs.without(&ax, false));
    let n = ys.without(&ay, false);
    // The contracted axes in the order in which they were named, last in x and first in y.
    let free = |s: &Shape, axes: &[usize]| Dims::from_slice(&rows_last(s, axes)[..s.rank() - axes.len()]);
    let left: Dims = free(xs, &ax).into_iter().chain(ax.iter().copied()).collect();
    let right: Dims = ay.iter().copied().chain(free(ys, &ay)).collect();
    let x = reshape::to_shape(&permute::to_axes(x, &left)?, &Shape::new(&[m.numel(), k])?)?;
    let y = reshape::to_shape(&permute::to_axes(y, &right)?, &Shape::new(&[k, n.numel()])?)?;
    let shape: Dims = m.iter().chain(n.iter()).copied().collect();
    reshape::to_shape(&V::apply(Matmul::with(&x), &[&x, &y]).map_err(|e| e.at("tensordot"))?, &Shape::new(&shape)?)
}

/// By name: operands x and y; attributes dims_x and dims_y.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![tensordot(a.input("x")?, a.input("y")?, &a.dims("dims_x")?, &a.dims("dims_y")?)?])
}
