//! unfold_dim: sliding windows along an axis. A view in which windows may overlap.

use super::view;
use super::{index_add, permute, reshape, select};
use crate::prelude::*;

/// Windows of `size` elements, `step` apart, along `axis`; the window becomes the last axis.
#[derive(Clone, Debug)]
pub struct UnfoldDim {
    /// The axis.
    pub axis: usize,
    /// Elements in a window.
    pub size: usize,
    /// Distance of the windows.
    pub step: usize,
}

impl Op for UnfoldDim {
    fn name(&self) -> &'static str {
        "unfold_dim"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_iter([x[0].with_layout(x[0].layout().unfold(self.axis, self.size, self.step)?)]))
    }
    /// The gradient of an element is the sum over the windows that hold it, in the order of the
    /// windows.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a view has one result");
        let (axis, rank, windows) = (self.axis, c.shape(0).rank(), g.shape()[self.axis]);
        let mut axes: Dims = (0..rank).collect();
        axes.insert(axis + 1, rank);
        let side_by_side = permute::to_axes(g, &axes)?;
        let flat = view::resized(c.shape(0), axis, windows * self.size)?;
        let index = (0..windows).flat_map(|w| (0..self.size).map(move |j| (w * self.step + j) as i64));
        let index = view::numbers(g, windows * self.size, index)?;
        let zero = view::zeros(g, c.shape(0))?;
        let src = reshape::to_shape(&side_by_side, &flat)?;
        let dx = index_add(&zero, axis as isize, &index, &src, Scalar::Int(1))?;
        Ok(vec![Some(dx)])
    }
}

/// Windows of `size` elements, `step` apart, along axis `dimension` of `x`: that axis then counts
/// the windows, and a new last axis holds the elements of one. A view.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, a window is longer than it, or the step is 0.
pub fn unfold_dim<V: Value>(x: &V, dimension: isize, size: usize, step: usize) -> Result<V> {
    let axis = x.shape().axis("unfold_dim", dimension)?;
    let line = if x.shape().rank() == 0 { reshape(x, &[1])? } else { x.clone() };
    let n = line.shape()[axis];
    if size > n || step == 0 {
        return Err(Error::argument(format!(
            "unfold_dim: windows of {size}, {step} apart, along axis {axis} of shape {}; a window is no longer than \
             the axis, and the step is not 0",
            x.shape()
        )));
    }
    // A step beyond the axis gives one window anyway.
    let y = V::apply(UnfoldDim { axis, size, step: step.min(n.max(1)) }, &[&line])?;
    // A scalar is one window: the axis that counts windows was added.
    if x.shape().rank() == 0 { select(&y, 0, 0) } else { Ok(y) }
}

/// By name: operand x; attributes dimension, size and step.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![unfold_dim(a.input("x")?, a.dim("dimension")?, a.size("size")?, a.size("step")?)?])
}
