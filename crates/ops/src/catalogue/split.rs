//! split: an axis divided into consecutive parts. Views.

use super::view::{self, Part, Run};
use crate::prelude::*;
use elinvar_core::host::with_capacity;

/// Parts of these sizes along an axis.
#[derive(Clone, Debug)]
pub struct Split {
    /// The axis.
    pub axis: usize,
    /// The sizes of the parts, which make up the axis.
    pub sizes: Dims,
}

impl Split {
    fn parts<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = Part> + 'a {
        let mut start = 0;
        self.sizes.iter().map(move |&len| {
            start += len;
            Part::run(shape, self.axis, Run { start: start - len, len, step: 1 })
        })
    }
}

impl Op for Split {
    fn name(&self) -> &'static str {
        "split"
    }
    fn saves(&self, _: DType) -> Saves {
        Saves::NOTHING
    }
    fn forward<B: Backend>(&self, x: &[&Array<B>]) -> Result<Outputs<B>> {
        Ok(self.parts(x[0].shape()).map(|p| x[0].with_layout(p.layout(x[0].layout()))).collect())
    }
    /// One tensor in which the parts without a gradient are 0.
    fn backward<V: Value>(&self, c: &Context<V>, g: &[Option<V>]) -> Result<Vec<Option<V>>> {
        let (parts, there): (Vec<Part>, Vec<&V>) =
            self.parts(c.shape(0)).zip(g).filter_map(|(p, g)| Some((p, g.as_ref()?))).unzip();
        Ok(vec![Some(view::assemble(&there, c.shape(0), Scalar::Int(0), parts)?)])
    }
}

/// `x` divided along `dim` into parts of these sizes. Views.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or the sizes do not add up to it.
pub fn sizes<V: Value>(x: &V, sizes: &[usize], dim: isize) -> Result<Vec<V>> {
    let shape = x.shape();
    if shape.rank() == 0 {
        return Err(Error::argument("split: a scalar has no axis to split"));
    }
    let axis = shape.axis("split", dim)?;
    let total = sizes.iter().try_fold(0usize, |t, &s| t.checked_add(s));
    if total != Some(shape[axis]) {
        return Err(Error::argument(format!(
            "split: sizes {sizes:?} do not make up axis {axis} of shape {shape}, which has {} elements",
            shape[axis]
        )));
    }
    match sizes {
        [] => Ok(Vec::new()),
        [_] => Ok(vec![x.clone()]),
        _ => V::apply_many(Split { axis, sizes: Dims::from_slice(sizes) }, &[x]),
    }
}

/// The sizes of parts of `size` elements each, of which the last may be smaller. An empty axis is
/// one empty part.
///
/// # Errors
/// `InvalidArgument` if the size is 0 and the axis is not empty.
pub(super) fn even(op: &str, n: usize, size: usize) -> Result<Vec<usize>> {
    match (n, size) {
        (0, _) => Ok(vec![0]),
        (_, 0) => Err(Error::argument(format!("{op}: parts of 0 elements never make up an axis of {n}"))),
        _ => {
            let mut parts = with_capacity(n.div_ceil(size))?;
            parts.extend((0..n).step_by(size).map(|i| size.min(n - i)));
            Ok(parts)
        }
    }
}

/// `x` divided along `dim` into parts of `size` elements, of which the last may be smaller. Views.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, or the size is 0 and the axis is not empty.
pub fn split<V: Value>(x: &V, size: usize, dim: isize) -> Result<Vec<V>> {
    let axis = x.shape().axis("split", dim)?;
    let n = x.shape().get(axis).copied().unwrap_or(1);
    sizes(x, &even("split", n, size)?, dim)
}

/// By name: operand x; attributes split_size (a size or a list of them) and dim.
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (x, dim) = (a.input("x")?, a.dim("dim")?);
    match a.attrs.get("split_size") {
        Some(Attr::List(_)) => sizes(x, &a.sizes("split_size")?, dim),
        _ => split(x, a.size("split_size")?, dim),
    }
}
