//! gather: elements picked along an axis by an index for each result.

use super::{add, le, logical_and, lt, reshape, scatter_add, view, where_};
use crate::array;
use crate::prelude::*;

/// y[i.., j, k..] = x[i.., index[i.., j, k..], k..]; operands x and index, of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The axis along which indices pick.
    pub axis: usize,
}

impl Op for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [x, index] = [x[0], x[1]];
        array::one_device("gather", &[x, index])?;
        let reached = corner(x.layout(), index.shape(), self.axis);
        let buffer = B::gather(x.device(), x.view_as(&reached), self.axis, index.view())?;
        Ok(Outputs::from_buf([Array::new(x.device(), buffer, index.shape().clone(), x.dtype())]))
    }
    /// The gradient is scattered to the source elements; repeated indices add in the order of the
    /// index.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("gather has one result");
        let dx = c.want(0, || scatter_add(&view::zeros(g, c.shape(0))?, self.axis as isize, c.x(1), g))?;
        Ok(vec![dx, None])
    }
}

/// The part of a tensor that an index can address: as large as the index in all axes but the
/// gathered one.
pub(super) fn corner(whole: &Layout, index: &Shape, axis: usize) -> Layout {
    (0..index.rank())
        .filter(|&a| a != axis && whole.shape()[a] != index[a])
        .fold(whole.clone(), |l, a| l.slice(a, 0, index[a], 1))
}

/// An index as i64.
///
/// # Errors
/// `DTypeMismatch` if it is not of integers.
pub(super) fn as_index<V: Value>(op: &str, index: &V) -> Result<V> {
    match index.dtype() {
        DType::I64 => Ok(index.clone()),
        DType::I32 | DType::U8 => crate::value::cast(index, DType::I64),
        d @ (DType::F32 | DType::F64 | elinvar_core::storage!(DType) | DType::Bool) => {
            Err(Error::dtype(format!("{op}: the index is {d}; it must be of integers")))
        }
    }
}

/// Negative indices replaced by those that count from the start. One that is out of range stays as
/// it is, so that the sentence about it names the index that was given.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn wrap<V: Value>(index: &V, size: usize) -> Result<V> {
    let shifted = add(index, &index.scalar_like(size)?)?;
    let zero = index.scalar_like(0i64)?;
    let from_end = logical_and(&lt(index, &zero)?, &le(&zero, &shifted)?)?;
    where_(&from_end, &shifted, index)
}

/// A scalar as a vector of one element, so that it has an axis; other tensors as they are.
///
/// # Errors
/// None of its own.
pub(super) fn at_least_1d<V: Value>(x: &V) -> Result<V> {
    if x.shape().rank() == 0 { reshape(x, &[1]) } else { Ok(x.clone()) }
}

/// Checks that an index has the rank of `x`, and is no larger outside of `axis`.
///
/// # Errors
/// `ShapeMismatch`.
pub(super) fn check(op: &str, x: &Shape, index: &Shape, axis: usize) -> Result<()> {
    if x.rank() == index.rank() && (0..x.rank()).all(|a| a == axis || index[a] <= x[a]) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{op}: index of shape {index} for shape {x}; the ranks must be equal, and no axis of the index but {axis} may be \
         the larger one"
    )))
}

/// For every element of `index` the element of `x` that it names along `dim`, at the same position
/// in all other axes: y[i, j] = x[index[i, j], j] for `dim` 0. The result has the shape of `index`,
/// which may be smaller than `x`; without elements it may also be of another rank.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if there is no such axis or an index is not in `0..size`;
/// `DTypeMismatch` if the index is not of integers; `DeviceMismatch`; `OutOfMemory`.
pub fn gather<V: Value>(x: &V, dim: isize, index: &V) -> Result<V> {
    let axis = x.shape().axis("gather", dim)?;
    let (from, at) = (at_least_1d(x)?, at_least_1d(&as_index("gather", index)?)?);
    if at.shape().numel() == 0 {
        // No element of `x`, in any shape.
        array::one_device("gather", &[from.array(), at.array()])?;
        let none = from.shape().iter().map(|_| view::Run { start: 0, len: 0, step: 1 }).collect();
        return reshape::to_shape(&view::take(&from, view::Part::Slice(none))?, index.shape());
    }
    check("gather", from.shape(), at.shape(), axis)?;
    let y = V::apply(Gather { axis }, &[&from, &at])?;
    reshape::to_shape(&y, index.shape())
}

/// By name: operands x and index; attribute dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![gather(a.input("x")?, a.dim("dim")?, a.input("index")?)?])
}
