//! scatter: elements written along an axis at given indices. Where an index repeats, the last in
//! row-major order stays.

use super::gather::{as_index, at_least_1d, check, corner};
use super::{reshape, view};
use crate::array;
use crate::prelude::*;

/// A copy of operand 0 into which operand 2 is written or added at the index, operand 1; all of one
/// rank.
#[derive(Clone, Copy, Debug)]
pub struct ScatterOp {
    /// Written or added?
    pub how: Scatter,
    /// The axis along which indices point.
    pub axis: usize,
}

impl Op for ScatterOp {
    fn name(&self) -> &'static str {
        "scatter"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::INPUTS
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        let [base, index, src] = [x[0], x[1], x[2]];
        array::one_device("scatter", x)?;
        let (device, dtype) = (base.device(), base.dtype());
        // The index bounds the part of the source that is used, and the part of the base that can
        // be addressed.
        let used = corner(src.layout(), index.shape(), usize::MAX);
        let reached = corner(base.layout(), index.shape(), self.axis);
        let (part, src) = (base.view_as(&reached), src.view_as(&used));
        let buffer = B::scatter(device, self.how, part, self.axis, index.view(), src)?;
        let y = Array::new(device, buffer, reached.shape().clone(), dtype);
        if y.shape() == base.shape() {
            return Ok(Outputs::from_iter([y]));
        }
        let whole = Layout::contiguous(base.shape().clone());
        let inside = corner(&whole, index.shape(), self.axis);
        let parts = [(base.view(), whole), (y.view(), inside)];
        let buffer = B::assemble(device, Scalar::Int(0), dtype, base.shape(), &parts)?;
        Ok(Outputs::from_iter([Array::new(device, buffer, base.shape().clone(), dtype)]))
    }
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("scatter has one result");
        let index = c.x(1);
        let base = c.want(0, || match self.how {
            Scatter::Add => Ok(g.clone()),
            Scatter::Set => value(g, self.axis as isize, index, Scalar::Int(0)),
        })?;
        let src = c.want(2, || {
            let used = super::gather(g, self.axis as isize, index)?;
            if used.shape() == c.shape(2) {
                return Ok(used);
            }
            let runs = index.shape().iter().map(|&n| view::Run::all(n)).collect();
            view::place(&used, c.shape(2), view::Part::Slice(runs))
        })?;
        Ok(vec![base, None, src])
    }
}

/// Checks the operands of a scatter and runs it.
///
/// # Errors
/// As [`scatter`].
pub(super) fn run<V: Value>(op: &str, how: Scatter, x: &V, dim: isize, index: &V, src: &V) -> Result<V> {
    let Some((axis, [base, at, from])) = checked(op, x, dim, index, src)? else { return Ok(x.clone()) };
    let y = V::apply(ScatterOp { how, axis }, &[&base, &at, &from]);
    let y = y.map_err(|e| if op == "scatter" { e } else { e.at(op) })?;
    reshape::to_shape(&y, x.shape())
}

/// The axis and the operands x, index and src, each with an axis at least. `None` if the index has
/// no element: then nothing is written, whatever the rank of nothing.
///
/// # Errors
/// As [`scatter`].
pub(super) fn checked<V: Value>(
    op: &str,
    x: &V,
    dim: isize,
    index: &V,
    src: &V,
) -> Result<Option<(usize, [V; 3])>> {
    let axis = x.shape().axis(op, dim)?;
    view::same_dtype(op, &[x, src])?;
    let (base, at, from) = (at_least_1d(x)?, at_least_1d(&as_index(op, index)?)?, at_least_1d(src)?);
    if at.shape().numel() == 0 {
        array::one_device(op, &[base.array(), at.array(), from.array()])?;
        return Ok(None);
    }
    check(op, base.shape(), at.shape(), axis)?;
    let covered = from.shape().rank() == at.shape().rank()
        && at.shape().iter().zip(from.shape().iter()).all(|(i, s)| i <= s);
    if !covered {
        return Err(Error::shape(format!(
            "{op}: index of shape {} for a source of shape {}; the ranks must be equal, and no axis of the index may be \
             the larger one",
            index.shape(),
            src.shape()
        )));
    }
    Ok(Some((axis, [base, at, from])))
}

/// A copy of `x` into which `value` is written at `index` along `dim`.
///
/// # Errors
/// As [`scatter`]; `DTypeMismatch` if the value does not fit x.
pub fn value<V: Value>(x: &V, dim: isize, index: &V, value: Scalar) -> Result<V> {
    let value = x.scalar_like(value).map_err(|e| e.at("scatter"))?;
    let src = V::from_array(value.array().broadcast_to(index.shape(), "scatter")?);
    run("scatter", Scatter::Set, x, dim, index, &src)
}

/// A copy of `x` into which each element of `src` is written at the position that `index` names
/// along `dim`, the same as its own in all other axes: y[index[i, j], j] = src[i, j] for `dim` 0.
/// `index` may be smaller than `src` and than `x`; the rest of `src` is not used. Where an index
/// repeats, the last in row-major order stays.
///
/// # Errors
/// `ShapeMismatch`; `InvalidArgument` if there is no such axis or an index is not in `0..size`;
/// `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn scatter<V: Value>(x: &V, dim: isize, index: &V, src: &V) -> Result<V> {
    run("scatter", Scatter::Set, x, dim, index, src)
}

/// By name: operands x, index and src; attributes dim, and value if there is no src.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, index, dim) = (a.input("x")?, a.input("index")?, a.dim("dim")?);
    Ok(vec![match a.optional("src") {
        Some(src) => scatter(x, dim, index, src)?,
        None => value(x, dim, index, a.scalar("value")?)?,
    }])
}
