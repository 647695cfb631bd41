//! Shared by max_unpool1d, 2d and 3d: a scatter into each plane.

use super::{flatten, reshape, scatter, view};
use crate::prelude::*;

/// Puts `x` back into planes of `axes` axes.
///
/// # Errors
/// As [`max_unpool2d`](fn@super::max_unpool2d).
pub(super) fn run<V: Value>(
    op: &str,
    axes: usize,
    [x, indices]: [&V; 2],
    [kernel, stride, padding]: [&[usize]; 3],
    output_size: Option<&[usize]>,
) -> Result<V> {
    let shape = x.shape();
    let lead = shape.rank().wrapping_sub(axes);
    if !(1..=2).contains(&lead) || indices.shape() != shape {
        return Err(Error::shape(format!(
            "{op}: shape {shape} and indices of shape {}; they must be equal, with {axes} spatial axes behind one or two",
            indices.shape()
        )));
    }
    // One value stands for all axes, and no stride for the kernel's.
    let each = |v: &[usize], axis: usize, or: usize| match v {
        [] => Ok(or),
        [one] => Ok(*one),
        all if all.len() == axes => Ok(all[axis]),
        all => Err(Error::argument(format!(
            "{op}: {all:?} for {axes} spatial axes; there must be one or {axes}"
        ))),
    };
    let mut dims = Dims::from_slice(shape);
    for axis in 0..axes {
        let k = each(kernel, axis, 0)?;
        let (s, p) = (each(stride, axis, k)?, each(padding, axis, 0)?);
        let grown = shape[lead + axis].saturating_sub(1).checked_mul(s).and_then(|n| n.checked_add(k));
        let least = grown.and_then(|n| n.checked_sub(p.saturating_mul(2)));
        dims[lead + axis] = match output_size {
            Some(all) => each(all, axis, 0)?,
            None => least.ok_or_else(|| {
                Error::argument(format!("{op}: a padding of {p} leaves nothing of a plane"))
            })?,
        };
    }
    let whole = Shape::new(&dims)?;
    let planes: usize = shape[..lead].iter().product();
    let of = |n: usize| Shape::new(&[planes, n]);
    let (inner, outer): (usize, usize) = (shape[lead..].iter().product(), whole[lead..].iter().product());
    let at = reshape::to_shape(indices, &of(inner)?)?;
    let src = reshape::to_shape(&flatten::all(x)?, &of(inner)?)?;
    let y = scatter::run(op, Scatter::Set, &view::zeros(x, &of(outer)?)?, 1, &at, &src)?;
    reshape::to_shape(&y, &whole)
}

/// By name.
pub(super) fn named<V: Value>(
    a: &Args<V>,
    f: impl FnOnce(&V, &V, &[usize], &[usize], &[usize], Option<&[usize]>) -> Result<V>,
) -> Result<Vec<V>> {
    let sizes = |name| Ok::<_, Error>(a.maybe(name, Args::sizes)?.unwrap_or_default());
    let size = a.maybe("output_size", Args::sizes)?;
    let (x, indices) = (a.input("x")?, a.input("indices")?);
    let (kernel, stride, padding) = (a.sizes("kernel_size")?, sizes("stride")?, sizes("padding")?);
    Ok(vec![f(x, indices, &kernel, &stride, &padding, size.as_deref())?])
}
