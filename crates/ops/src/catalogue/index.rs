//! index: a part of a tensor, named as in NumPy and PyTorch by single indices, ranges, new axes, an
//! ellipsis, index tensors, lists and masks in any mixture.
//!
//! Single indices (also an index tensor without axes), ranges and new axes come first, as views.
//! The index tensors that are left are broadcast together, and their common shape replaces their
//! axes: in place if these are neighbours, in front if something stands between them. (NumPy counts
//! a single index beside index tensors as one of them; PyTorch and this do not.)

use super::gather::{self, Gather, as_index};
use super::slice::{self, Run};
use super::view::{self, Part};
use super::{add, index_select, mul, nonzero, permute, reshape, select, unsqueeze};
use crate::prelude::*;
use crate::value::broadcast;

/// What is taken along an axis, or put between axes.
#[derive(Clone, Debug)]
pub enum Item<V> {
    /// One index, from the end if negative; the axis is removed.
    At(isize),
    /// `start..stop` in steps, as Python's `start:stop:step`.
    Range(slice::Range),
    /// A new axis of size 1.
    NewAxis,
    /// All axes that are not indexed otherwise.
    Ellipsis,
    /// A mask without axes: a new axis of size 1 or 0.
    Truth(bool),
    /// Indices, from the end if negative.
    List(Vec<i64>),
    /// Indices (i64 or i32; from the end if negative), or a mask (bool, for as many axes as its
    /// rank).
    Tensor(V),
}

/// An item, checked, as what is done to the operand's axes, from the first to the last.
pub(super) enum Step<V> {
    /// An index of an axis, which is removed.
    At(usize),
    /// The same by a tensor of one element, [1].
    Point(V),
    /// A run of an axis.
    Run(Run),
    /// A new axis of size 1.
    NewAxis,
    /// Indices of an axis, in 0..size.
    Pick(V),
    /// A new axis of size 1, and indices of it.
    Truth(V),
}

/// The steps of an index: one per axis of `x`, and one per new axis.
pub(super) fn steps<V: Value>(op: &str, x: &V, items: &[Item<V>]) -> Result<Vec<Step<V>>> {
    let shape = x.shape();
    let axes_of = |i: &Item<V>| match i {
        Item::NewAxis | Item::Ellipsis | Item::Truth(_) => 0,
        Item::Tensor(t) if t.dtype() == DType::Bool => t.shape().rank(),
        Item::At(_) | Item::Range(_) | Item::List(_) | Item::Tensor(_) => 1,
    };
    let used: usize = items.iter().map(axes_of).sum();
    let dots = items.iter().filter(|i| matches!(i, Item::Ellipsis)).count();
    if used > shape.rank() || dots > 1 {
        return Err(Error::argument(format!(
            "{op}: {used} indices (and {dots} ellipses) for shape {shape}; at most {} and one fit",
            shape.rank()
        )));
    }
    let mut steps = Vec::with_capacity(items.len() + shape.rank() - used);
    let mut axis = 0;
    let all = |steps: &mut Vec<Step<V>>, axis: &mut usize| {
        for _ in used..shape.rank() {
            steps.push(Step::Run(Run::all(shape[*axis])));
            *axis += 1;
        }
    };
    for item in items {
        let size = shape.get(axis).copied().unwrap_or(1);
        match item {
            Item::At(p) => {
                let place = if *p < 0 { p.saturating_add_unsigned(size) } else { *p };
                let place = usize::try_from(place).ok().filter(|&p| p < size);
                steps.push(Step::At(place.ok_or_else(|| {
                    Error::argument(format!("{op}: place {p} is out of range for axis {axis} of size {size}"))
                })?));
            }
            Item::Range(r) => steps.push(Step::Run(r.resolve(size)?)),
            Item::NewAxis => steps.push(Step::NewAxis),
            Item::Ellipsis => all(&mut steps, &mut axis),
            Item::Truth(v) => steps.push(Step::Truth(view::numbers(x, usize::from(*v), v.then_some(0))?)),
            Item::List(v) => {
                let list = view::numbers(x, v.len(), v.iter().copied())?;
                steps.push(Step::Pick(checked(op, &list, axis, size)?));
            }
            Item::Tensor(t) if t.dtype() == DType::Bool => mask(op, t, shape, axis, &mut steps)?,
            Item::Tensor(t) => {
                if !matches!(t.dtype(), DType::I64 | DType::I32) {
                    return Err(Error::dtype(format!(
                        "{op}: places must be i64 or i32 and masks bool; this tensor is {}",
                        t.dtype()
                    )));
                }
                let at = checked(op, &as_index(op, t)?, axis, size)?;
                steps.push(match t.shape().rank() {
                    0 => Step::Point(reshape(&at, &[1])?),
                    _ => Step::Pick(at),
                });
            }
        }
        axis += axes_of(item);
    }
    if dots == 0 {
        all(&mut steps, &mut axis);
    }
    Ok(steps)
}

/// A mask is the list of indices where it is true: one list per axis of the mask.
fn mask<V: Value>(op: &str, t: &V, shape: &Shape, axis: usize, steps: &mut Vec<Step<V>>) -> Result<()> {
    let rank = t.shape().rank();
    if shape[axis..axis + rank] != t.shape()[..] {
        return Err(Error::shape(format!(
            "{op}: a mask of shape {} does not fit shape {shape} at axis {axis}",
            t.shape()
        )));
    }
    if rank == 0 {
        steps.push(Step::Truth(nonzero::numbers(&reshape(t, &[1])?)?));
        return Ok(());
    }
    let places = nonzero(t)?;
    for k in 0..rank {
        steps.push(Step::Pick(select(&places, 1, k as isize)?));
    }
    Ok(())
}

/// Indices in `0..size` for those of `index`, which may count from the end.
fn checked<V: Value>(op: &str, index: &V, axis: usize, size: usize) -> Result<V> {
    let at = gather::wrap(index, size)?;
    if at.shape().numel() > 0 {
        // Gathered from a table of no memory, whose axis is the one that a sentence should name.
        let along = |n: usize| {
            let mut dims = Dims::from_elem(1, axis + 1);
            dims[axis] = n;
            Shape::new(&dims)
        };
        let table = view::zeros(&at, &along(size)?)?;
        let row = reshape::to_shape(&at, &along(at.shape().numel())?)?;
        V::apply(Gather { axis }, &[&table, &row]).map_err(|e| e.at(op))?;
    }
    Ok(at)
}

/// The common shape of index tensors.
pub(super) fn common<'a, V: Value>(op: &str, picks: impl IntoIterator<Item = &'a V>) -> Result<Shape> {
    picks.into_iter().try_fold(Shape::scalar(), |s, t| s.broadcast(t.shape(), op))
}

/// The axis of the result at which the common shape of index tensors of these axes begins.
pub(super) fn front(axes: &[usize]) -> usize {
    if axes.windows(2).all(|w| w[1] == w[0] + 1) { axes[0] } else { 0 }
}

/// The part of `x` that the items name; axes without one stay whole.
///
/// # Errors
/// `InvalidArgument` if there are more items than axes, an index or axis does not exist, or a step
/// is 0; `ShapeMismatch` if index tensors do not broadcast or a mask does not fit; `DTypeMismatch`
/// if an index tensor is of something else; `DeviceMismatch`; `OutOfMemory`.
pub fn index<V: Value>(x: &V, items: &[Item<V>]) -> Result<V> {
    let (mut y, mut axis) = (x.clone(), 0);
    // (axis after the views, indices)
    let mut picks: Vec<(usize, V)> = vec![];
    for step in steps("index", x, items)? {
        match step {
            Step::At(index) => y = view::take(&y, Part::Select { axis, index })?,
            Step::Point(t) => {
                let one = index_select(&y, axis as isize, &t)?;
                y = reshape::to_shape(&one, &y.shape().without(&[axis], false))?;
            }
            Step::Run(run) => {
                if !run.is_all(y.shape()[axis]) {
                    y = view::take(&y, Part::run(y.shape(), axis, run))?;
                }
                axis += 1;
            }
            Step::NewAxis => {
                y = unsqueeze(&y, axis as isize)?;
                axis += 1;
            }
            Step::Pick(t) => {
                picks.push((axis, t));
                axis += 1;
            }
            Step::Truth(t) => {
                y = unsqueeze(&y, axis as isize)?;
                picks.push((axis, t));
                axis += 1;
            }
        }
    }
    if picks.is_empty() { Ok(y) } else { pick(&y, &picks) }
}

/// Applies index tensors: their axes are moved to the front and flattened into one, indices are
/// linearised, and the common shape of the tensors replaces that axis.
fn pick<V: Value>(x: &V, picks: &[(usize, V)]) -> Result<V> {
    let shape = x.shape();
    let axes: Dims = picks.iter().map(|p| p.0).collect();
    let common = common("index", picks.iter().map(|p| &p.1))?;
    let mut flat: Option<V> = None;
    for (axis, t) in picks {
        flat = Some(match flat {
            None => t.clone(),
            Some(f) => add(&mul(&f, &f.scalar_like(shape[*axis])?)?, t)?,
        });
    }
    let flat = broadcast(&flat.expect("there is a pick"), &common)?;
    let rest: Dims = (0..shape.rank()).filter(|a| !axes.contains(a)).collect();
    let order: Dims = axes.iter().chain(&rest).copied().collect();
    let size: usize = axes.iter().map(|&a| shape[a]).product();
    let rest_dims: Dims = rest.iter().map(|&a| shape[a]).collect();
    let with = |front: &[usize]| Shape::new(&front.iter().chain(&rest_dims).copied().collect::<Dims>());
    let rows = reshape::to_shape(&permute::to_axes(x, &order)?, &with(&[size])?)?;
    let taken = index_select(&rows, 0, &reshape(&flat, &[-1])?).map_err(|e| e.at("index"))?;
    let y = reshape::to_shape(&taken, &with(&common)?)?;
    let before = front(&axes);
    if before == 0 {
        return Ok(y);
    }
    // The new axes are in front; they belong behind the axes in front of the first index tensor.
    let new = common.rank();
    let order: Dims = (new..new + before).chain(0..new).chain(new + before..y.shape().rank()).collect();
    permute::to_axes(&y, &order)
}

/// The attribute index: a list of numbers (single indices), nulls (new axes), "..." (an ellipsis),
/// true and false, [start, stop, step] with nulls (ranges), and the roles of operands (index
/// tensors and masks). Without it the operands index0, index1, .. one after the other.
pub(super) fn items<V: Value>(a: &Args<V>) -> Result<Vec<Item<V>>> {
    if !a.has("index") {
        return Ok(a.all("index").into_iter().cloned().map(Item::Tensor).collect());
    }
    let one = |item: &Attr| {
        Ok(match item {
            Attr::Int(v) => Item::At(*v as isize),
            Attr::Null => Item::NewAxis,
            Attr::Bool(v) => Item::Truth(*v),
            Attr::Str(s) if s == "..." => Item::Ellipsis,
            Attr::Str(role) => Item::Tensor(a.input(role)?.clone()),
            Attr::List(_) | Attr::Float(_) => Item::Range(slice::range(&a.op, item)?),
        })
    };
    a.list("index")?.iter().map(one).collect()
}

/// By name: operand x, and index tensors in roles of their own; attribute index (absent: the index
/// tensors are index0, index1, ..).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    Ok(vec![index(a.input("x")?, &items(a)?)?])
}
