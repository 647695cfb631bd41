//! permute: the axes in another order. A view.

use crate::prelude::*;

/// Axis `i` of the result is axis `axes[i]` of x.
#[derive(Clone, Debug)]
pub struct Permute {
    /// Every axis once.
    pub axes: Dims,
}

impl Op for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(Outputs::from_buf([x[0].with_layout(x[0].layout().permute(&self.axes))]))
    }
    fn backward<V: Value>(&self, _: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let g = g[0].as_ref().expect("a view has one result");
        Ok(vec![Some(to_axes(g, &inverse(&self.axes))?)])
    }
}

/// The inverse permutation of `axes`.
pub(super) fn inverse(axes: &[usize]) -> Dims {
    let mut back = Dims::from_elem(0, axes.len());
    axes.iter().enumerate().for_each(|(i, &a)| back[a] = i);
    back
}

/// Axis `i` of the result is axis `axes[i]` of `x`. `axes` must hold every axis once.
///
/// # Errors
/// None of its own.
pub(super) fn to_axes<V: Value>(x: &V, axes: &[usize]) -> Result<V> {
    if axes.iter().enumerate().all(|(i, &a)| i == a) {
        return Ok(x.clone());
    }
    V::apply(Permute { axes: Dims::from_slice(axes) }, &[x])
}

/// `x` with its axes in another order: axis `i` of the result is axis `dims[i]` of `x`. A view.
///
/// # Errors
/// `InvalidArgument` if `dims` does not hold every axis once.
pub fn permute<V: Value>(x: &V, dims: &[isize]) -> Result<V> {
    let rank = x.shape().rank();
    if dims.len() != rank {
        return Err(Error::argument(format!(
            "permute: {dims:?} has {} axes, and shape {} has {rank}; each must be named once",
            dims.len(),
            x.shape()
        )));
    }
    to_axes(x, &x.shape().axes("permute", dims)?)
}

/// By name: operand x; attribute dims.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![permute(a.input("x")?, &a.dims("dims")?)?])
}
