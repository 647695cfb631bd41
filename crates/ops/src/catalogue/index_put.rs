//! index_put: a tensor with a part of it, named as for `index`, replaced or added to. Where indices
//! repeat, the last source stays, or sources add one by one, in row-major order of the part.

use super::index::{self, Item, Step, common, front};
use super::scatter::ScatterOp;
use super::slice::Run;
use super::{add, flatten, mul, reshape, slice_assign, view};
use crate::prelude::*;
use crate::value::broadcast;

/// A copy of `x` in which the part that the items name is `values`, which is broadcast to it; or,
/// if `accumulate`, to which they are added. An element that another one overwrote gets the
/// gradient of their place, as in PyTorch.
///
/// # Errors
/// Those of [`index`](fn@super::index); `ShapeMismatch` if the values do not broadcast to the
/// part; `DTypeMismatch` if they are of another dtype.
pub fn index_put<V: Value>(x: &V, items: &[Item<V>], values: &V, accumulate: bool) -> Result<V> {
    view::same_dtype("index_put", &[x, values])?;
    run("index_put", x, items, values, accumulate)
}

/// The same for the op of this name.
///
/// # Errors
/// As [`index_put`].
pub fn run<V: Value>(op: &str, x: &V, items: &[Item<V>], values: &V, accumulate: bool) -> Result<V> {
    let steps = index::steps(op, x, items)?;
    let axes = axes(&steps);
    let part = shape(op, &axes)?;
    // Axes of size 1 in front of the part's are dropped, as in NumPy.
    let extra = values.shape().rank().saturating_sub(part.rank());
    let fits = values.shape()[..extra].iter().all(|&n| n == 1);
    let src = if fits { reshape::to_shape(values, &Shape::new(&values.shape()[extra..])?)? } else { values.clone() };
    let misfit =
        |_| Error::shape(format!("{op}: src {} does not broadcast to the part {part}", values.shape()));
    let src = broadcast(&src, &part).map_err(misfit)?;
    if let (false, Some(runs)) = (accumulate, runs(&steps)) {
        let whole = Shape::new(&runs.iter().map(|r| r.len).collect::<Dims>())?;
        return slice_assign::runs(x, &runs, &reshape::to_shape(&src, &whole)?).map_err(|e| e.at(op));
    }
    view::same_dtype(op, &[x, values])?;
    if part.numel() == 0 {
        return Ok(x.clone());
    }
    let how = if accumulate { Scatter::Add } else { Scatter::Set };
    let put = |x: &V, axis: usize, at: &V, src: &V| {
        V::apply(ScatterOp { how, axis }, &[x, at, src]).map_err(|e| e.at(op))
    };
    if let Some((axis, at)) = whole_slices(x.shape(), &steps) {
        let at = flatten::all(at)?;
        let wide = view::resized(x.shape(), axis, at.shape().numel())?;
        let mut column = Dims::from_elem(1, wide.rank());
        column[axis] = at.shape().numel();
        let at = V::from_array(at.array().reshape(&Shape::new(&column)?)?.broadcast_to(&wide, op)?);
        return put(x, axis, &at, &reshape::to_shape(&src, &wide)?);
    }
    let at = flatten::all(&places(x, &steps, &axes, &part)?)?;
    let y = put(&flatten::all(x)?, 0, &at, &flatten::all(&src)?)?;
    reshape::to_shape(&y, x.shape())
}

/// The axes that the part has before index tensors are applied, each with its index tensor.
fn axes<V: Value>(steps: &[Step<V>]) -> Vec<(usize, Option<&V>)> {
    let axis = |s: &'_ Step<V>| match s {
        Step::At(_) | Step::Point(_) => None,
        Step::Run(r) => Some(r.len),
        Step::NewAxis | Step::Pick(_) | Step::Truth(_) => Some(1),
    };
    let tensor = |s| match s {
        &Step::Pick(ref t) | &Step::Truth(ref t) => Some(t),
        _ => None,
    };
    steps.iter().filter_map(|s| axis(s).map(|n| (n, tensor(s)))).collect()
}

/// The shape of the part.
fn shape<V: Value>(op: &str, axes: &[(usize, Option<&V>)]) -> Result<Shape> {
    let mut dims: Dims = axes.iter().filter(|a| a.1.is_none()).map(|a| a.0).collect();
    let picked = picked(axes);
    if !picked.is_empty() {
        let common = common(op, axes.iter().filter_map(|a| a.1))?;
        let before = front(&picked);
        dims = dims[..before].iter().chain(common.iter()).chain(&dims[before..]).copied().collect();
    }
    Shape::new(&dims)
}

fn picked<V>(axes: &[(usize, Option<&V>)]) -> Dims {
    (0..axes.len()).filter(|&i| axes[i].1.is_some()).collect()
}

/// A run of every axis, if there is no index tensor.
fn runs<V: Value>(steps: &[Step<V>]) -> Option<Vec<Run>> {
    let run = |s: &Step<V>| match s {
        Step::At(start) => Some(Some(Run { start: *start, len: 1, step: 1 })),
        Step::Run(run) => Some(Some(*run)),
        Step::NewAxis => Some(None),
        Step::Point(_) | Step::Pick(_) | Step::Truth(_) => None,
    };
    let all: Option<Vec<Option<Run>>> = steps.iter().map(run).collect();
    Some(all?.into_iter().flatten().collect())
}

/// The axis and indices, if there is one index tensor and all other axes stay whole.
fn whole_slices<'a, V: Value>(shape: &Shape, steps: &'a [Step<V>]) -> Option<(usize, &'a V)> {
    let mut found = None;
    if steps.len() != shape.rank() {
        return None;
    }
    for (axis, s) in steps.iter().enumerate() {
        match s {
            Step::Pick(t) if found.is_none() => found = Some((axis, t)),
            Step::Run(r) if r.is_all(shape[axis]) => {}
            _ => return None,
        }
    }
    found
}

/// The row-major position in `x` of each element of the part: a sum of what its index along each
/// axis contributes.
fn places<V: Value>(
    x: &V,
    steps: &[Step<V>],
    axes: &[(usize, Option<&V>)],
    part: &Shape,
) -> Result<V> {
    let strides = Layout::contiguous(x.shape().clone());
    let picked = picked(axes);
    let new = common("index_put", axes.iter().filter_map(|a| a.1))?.rank();
    let before = if picked.is_empty() { 0 } else { front(&picked) };
    // The axis of the part for the next run or new axis, and how many axes stand behind it.
    let mut next = if picked.is_empty() || before > 0 { 0 } else { new };
    let mut seen = 0;
    let mut source = 0;
    let mut sum: V = view::numbers(x, 1, [0])?;
    for s in steps {
        let stride = match s {
            Step::NewAxis | Step::Truth(_) => 0,
            Step::At(_) | Step::Point(_) | Step::Run(_) | Step::Pick(_) => {
                source += 1;
                strides.strides()[source - 1] as i64
            }
        };
        let scaled = |t: &V| mul(t, &t.scalar_like(stride)?);
        // What is added, as a tensor whose last axis is the part's axis `last - 1`.
        let (term, last) = match s {
            Step::At(i) => (view::numbers(x, 1, [*i as i64 * stride])?, part.rank()),
            Step::Point(t) => (scaled(t)?, part.rank()),
            Step::Run(r) => {
                let at = (0..r.len).map(|i| (r.start as i64 + i as i64 * r.step as i64) * stride);
                (view::numbers(x, r.len, at)?, next + 1)
            }
            Step::NewAxis => (view::numbers(x, 1, [0])?, next + 1),
            Step::Pick(t) => (scaled(t)?, before + new),
            Step::Truth(t) => (t.clone(), before + new),
        };
        match s {
            Step::Run(_) | Step::NewAxis => {
                next += 1;
                seen += 1;
                if !picked.is_empty() && before > 0 && seen == before {
                    next += new;
                }
            }
            Step::At(_) | Step::Point(_) | Step::Pick(_) | Step::Truth(_) => {}
        }
        let mut dims = Dims::from_slice(term.shape());
        dims.extend(std::iter::repeat_n(1, part.rank() - last));
        sum = add(&sum, &reshape::to_shape(&term, &Shape::new(&dims)?)?)?;
    }
    // A part without axes is one element.
    let sum = if part.rank() == 0 { reshape::to_shape(&sum, part)? } else { sum };
    broadcast(&sum, part)
}

/// By name: operands x and values, and index tensors in roles of their own; attributes index (as
/// for `index`) and accumulate (absent: false).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let accumulate = a.maybe("accumulate", Args::bool)?.unwrap_or(false);
    Ok(vec![index_put(a.input("x")?, &index::items(a)?, a.input("values")?, accumulate)?])
}
