//! Slicing: ranges, steps, single indices, new axes, index tensors and masks, in NumPy's meaning.
//!
//! `x.i((.., 1..3, -1))` is NumPy's `x[:, 1:3, -1]`. Ranges and single indices make views; index
//! tensors and masks copy.

use crate::Tensor;
use crate::fail::OrFail;
use elinvar_core::{DType, Dims, Error, Result, Shape};
use elinvar_ops::backend::Backend;
use elinvar_ops::catalogue as op;
use elinvar_ops::value::Value;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// The selection along one axis.
#[derive(Clone, Debug)]
pub enum Index<B: Backend> {
    /// One index, from the end if negative; the axis is removed.
    At(isize),
    /// `start..stop` in steps, as Python's `start:stop:step`; a missing bound is that of the axis.
    Range {
        /// First index; from the end if negative.
        start: Option<isize>,
        /// First index not taken; from the end if negative.
        stop: Option<isize>,
        /// Step; negative goes backwards. Not 0.
        step: isize,
    },
    /// A new axis of size 1.
    NewAxis,
    /// All axes that are not indexed otherwise.
    Ellipsis,
    /// Indices (i64; from the end if negative), or a mask (bool, for as many axes as its rank).
    Tensor(Tensor<B>),
}

/// Every `by`-th index of a range: `step(.., 2)`, `step(.., -1)`, `step(1..9, 3)`.
pub fn step<B: Backend>(range: impl Into<Index<B>>, by: isize) -> Index<B> {
    match range.into() {
        Index::Range { start, stop, .. } => Index::Range { start, stop, step: by },
        other => other,
    }
}

macro_rules! index_from {
    ($($t:ty),*) => {$(
        impl<B: Backend> From<$t> for Index<B> {
            fn from(i: $t) -> Self {
                Index::At(place(i))
            }
        }
        impl<B: Backend> From<Range<$t>> for Index<B> {
            fn from(r: Range<$t>) -> Self {
                Index::Range { start: Some(place(r.start)), stop: Some(place(r.end)), step: 1 }
            }
        }
        impl<B: Backend> From<RangeFrom<$t>> for Index<B> {
            fn from(r: RangeFrom<$t>) -> Self {
                Index::Range { start: Some(place(r.start)), stop: None, step: 1 }
            }
        }
        impl<B: Backend> From<RangeTo<$t>> for Index<B> {
            fn from(r: RangeTo<$t>) -> Self {
                Index::Range { start: None, stop: Some(place(r.end)), step: 1 }
            }
        }
        impl<B: Backend> From<RangeInclusive<$t>> for Index<B> {
            fn from(r: RangeInclusive<$t>) -> Self {
                Index::Range { start: Some(place(*r.start())), stop: after(place(*r.end())), step: 1 }
            }
        }
        impl<B: Backend> From<RangeToInclusive<$t>> for Index<B> {
            fn from(r: RangeToInclusive<$t>) -> Self {
                Index::Range { start: None, stop: after(place(r.end)), step: 1 }
            }
        }
    )*};
}
index_from!(isize, usize, i32, i64);

/// As an isize; what is beyond that is beyond every axis, too, and stays so.
fn place<T: Copy + PartialOrd + Default + TryInto<isize>>(i: T) -> isize {
    i.try_into().unwrap_or(if i < T::default() { isize::MIN } else { isize::MAX })
}

/// The stop of an inclusive range: the index after -1 is the end.
fn after(last: isize) -> Option<isize> {
    if last == -1 { None } else { Some(last.saturating_add(1)) }
}

impl<B: Backend> From<RangeFull> for Index<B> {
    fn from(_: RangeFull) -> Self {
        Index::Range { start: None, stop: None, step: 1 }
    }
}
impl<B: Backend> From<&Tensor<B>> for Index<B> {
    fn from(t: &Tensor<B>) -> Self {
        Index::Tensor(t.clone())
    }
}
impl<B: Backend> From<Tensor<B>> for Index<B> {
    fn from(t: Tensor<B>) -> Self {
        Index::Tensor(t)
    }
}

/// One index, or a tuple of up to six.
pub trait Indices<B: Backend> {
    /// The indices, one per axis.
    fn list(self) -> Vec<Index<B>>;
}

impl<B: Backend, I: Into<Index<B>>> Indices<B> for I {
    fn list(self) -> Vec<Index<B>> {
        vec![self.into()]
    }
}
impl<B: Backend> Indices<B> for Vec<Index<B>> {
    fn list(self) -> Vec<Index<B>> {
        self
    }
}
macro_rules! tuple {
    ($($i:ident),*) => {
        impl<B: Backend, $($i: Into<Index<B>>),*> Indices<B> for ($($i,)*) {
            #[allow(non_snake_case)]
            fn list(self) -> Vec<Index<B>> {
                let ($($i,)*) = self;
                vec![$($i.into()),*]
            }
        }
    };
}
tuple!(I0);
tuple!(I0, I1);
tuple!(I0, I1, I2);
tuple!(I0, I1, I2, I3);
tuple!(I0, I1, I2, I3, I4);
tuple!(I0, I1, I2, I3, I4, I5);

impl<B: Backend> Tensor<B> {
    /// A part of the tensor: `x.i(0)`, `x.i((.., 1..3))`, `x.i((Index::Ellipsis, -1))`,
    /// `x.i(&mask)`, `x.i((step(.., 2), &places))`.
    ///
    /// Several index tensors are broadcast together, as in NumPy: their axes are replaced by the
    /// common shape of the tensors, in place if they are neighbours, in front if not.
    ///
    /// # Panics
    /// If an index or axis does not exist, a step is 0, or an index tensor is not of i64 or bool.
    #[track_caller]
    pub fn i(&self, indices: impl Indices<B>) -> Tensor<B> {
        index(self, indices.list()).or_fail()
    }
    /// A copy in which a part (see [`Tensor::i`]; single indices, ranges and new axes) is replaced
    /// by `src`, which is broadcast to it.
    ///
    /// # Panics
    /// If an index or axis does not exist, the shapes do not broadcast, or an index is a tensor.
    #[track_caller]
    pub fn slice_assign(&self, indices: impl Indices<B>, src: &Tensor<B>) -> Tensor<B> {
        assign(self, indices.list(), src).or_fail()
    }
}

/// Indices with the ellipsis expanded, and full ranges for the remaining axes: one per axis.
fn spread<B: Backend>(shape: &Shape, list: Vec<Index<B>>) -> Result<Vec<Index<B>>> {
    let axes_of = |i: &Index<B>| match i {
        Index::NewAxis | Index::Ellipsis => 0,
        Index::Tensor(t) if t.dtype() == DType::Bool => t.rank(),
        Index::At(_) | Index::Range { .. } | Index::Tensor(_) => 1,
    };
    let used: usize = list.iter().map(axes_of).sum();
    let dots = list.iter().filter(|i| matches!(i, Index::Ellipsis)).count();
    if used > shape.rank() || dots > 1 {
        return Err(Error::argument(format!(
            "index: {used} indices (and {dots} ellipses) for shape {shape}; at most {} and one fit",
            shape.rank()
        )));
    }
    let full = || std::iter::repeat_n(Index::from(..), shape.rank() - used);
    let mut out = Vec::with_capacity(list.len() + shape.rank() - used);
    for i in list {
        match i {
            Index::Ellipsis => out.extend(full()),
            other => out.push(other),
        }
    }
    if dots == 0 {
        out.extend(full());
    }
    Ok(out)
}

fn index<B: Backend>(x: &Tensor<B>, list: Vec<Index<B>>) -> Result<Tensor<B>> {
    let list = spread(x.shape(), list)?;
    let mut y = x.clone();
    let mut axis = 0;
    // (axis after the views, indices)
    let mut picks: Vec<(usize, Tensor<B>)> = vec![];
    for i in list {
        match i {
            Index::At(p) => y = op::select(&y, axis as isize, p)?,
            Index::Range { start, stop, step } => {
                y = range(&y, axis, op::slice::Range { start, stop, step })?;
                axis += 1;
            }
            Index::NewAxis => {
                y = op::unsqueeze(&y, axis as isize)?;
                axis += 1;
            }
            Index::Tensor(t) if t.dtype() == DType::Bool => {
                // A mask is the list of indices where it is true: one list per axis of the mask.
                let fits = y.shape().get(axis..axis + t.rank()) == Some(t.dims());
                if !fits {
                    return Err(Error::shape(format!(
                        "index: a mask of shape {} does not fit shape {} at axis {axis}",
                        t.shape(),
                        y.shape()
                    )));
                }
                let places = op::nonzero(&t)?;
                for k in 0..t.rank() {
                    picks.push((axis, op::select(&places, 1, k as isize)?));
                    axis += 1;
                }
                if t.rank() == 0 {
                    y = op::unsqueeze(&y, axis as isize)?;
                    picks.push((axis, op::reshape(&op::nonzero(&op::reshape(&t, &[1])?)?, &[-1])?));
                    axis += 1;
                }
            }
            Index::Tensor(t) => {
                if t.dtype() != DType::I64 {
                    return Err(Error::dtype(format!(
                        "index: places must be i64 and masks bool; this tensor is {}",
                        t.dtype()
                    )));
                }
                picks.push((axis, t));
                axis += 1;
            }
            Index::Ellipsis => unreachable!("spread wrote it out"),
        }
    }
    if picks.is_empty() { Ok(y) } else { pick(&y, picks) }
}

fn range<B: Backend>(x: &Tensor<B>, axis: usize, range: op::slice::Range) -> Result<Tensor<B>> {
    let run = range.resolve(x.shape()[axis])?;
    if run.is_all(x.shape()[axis]) {
        Ok(x.clone())
    } else {
        op::view::take(x, op::view::Part::run(x.shape(), axis, run))
    }
}

/// Applies index tensors: their axes are moved to the front and flattened into one, indices are
/// linearised, and the common shape of the tensors replaces that axis.
fn pick<B: Backend>(x: &Tensor<B>, picks: Vec<(usize, Tensor<B>)>) -> Result<Tensor<B>> {
    let shape = x.shape().clone();
    let axes: Dims = picks.iter().map(|p| p.0).collect();
    let mut common = picks[0].1.shape().clone();
    for (_, t) in &picks[1..] {
        common = common.broadcast(t.shape(), "index")?;
    }
    let mut flat: Option<Tensor<B>> = None;
    for (axis, t) in &picks {
        let n = shape[*axis];
        let checked = wrap(t, *axis, n)?;
        flat = Some(match flat {
            None => checked,
            Some(f) => op::add(&op::mul(&f, &f.scalar_like(n)?)?, &checked)?,
        });
    }
    let flat = elinvar_ops::value::broadcast(&flat.expect("there is a pick"), &common)?;
    let rest: Dims = (0..shape.rank()).filter(|a| !axes.contains(a)).collect();
    let order: Vec<isize> = axes.iter().chain(&rest).map(|&a| a as isize).collect();
    let size: usize = axes.iter().map(|&a| shape[a]).product();
    let rest_dims: Dims = rest.iter().map(|&a| shape[a]).collect();
    let with = |front: &[usize]| Shape::new(&front.iter().chain(&rest_dims).copied().collect::<Dims>());
    let rows = op::reshape::to_shape(&op::permute(x, &order)?, &with(&[size])?)?;
    let taken = op::index_select(&rows, 0, &op::reshape(&flat, &[-1])?)?;
    let y = op::reshape::to_shape(&taken, &with(&common)?)?;
    let neighbours = axes.windows(2).all(|w| w[1] == w[0] + 1);
    if !neighbours || axes[0] == 0 {
        return Ok(y);
    }
    // The new axes are in front; they belong behind the axes in front of the first index tensor.
    let (before, new) = (axes[0], common.rank());
    let order: Vec<isize> =
        (new..new + before).chain(0..new).chain(new + before..y.rank()).map(|a| a as isize).collect();
    op::permute(&y, &order)
}

/// Makes negative indices positive and checks all of them: after linearisation an index out of
/// range could be in range.
fn wrap<B: Backend>(t: &Tensor<B>, axis: usize, n: usize) -> Result<Tensor<B>> {
    let host = t.to_host()?;
    let places = host.as_slice::<i64>()?;
    if let Some(bad) = places.iter().find(|&&p| p < -(n as i64) || p >= n as i64) {
        return Err(Error::argument(format!(
            "index: place {bad} is out of range for axis {axis} of size {n}"
        )));
    }
    if places.iter().all(|&p| p >= 0) {
        return Ok(t.clone());
    }
    let positive = places.iter().map(|&p| if p < 0 { p + n as i64 } else { p }).collect();
    Tensor::from_host(elinvar_core::HostTensor::from_vec(positive, host.shape().clone())?, t.device())
}

/// Assigns to a range of every axis; `src`, broadcast to the shape of [`Tensor::i`]'s result, is
/// reshaped to that of the ranges.
fn assign<B: Backend>(x: &Tensor<B>, list: Vec<Index<B>>, src: &Tensor<B>) -> Result<Tensor<B>> {
    let list = spread(x.shape(), list)?;
    let mut runs = vec![];
    let mut seen = Dims::new();
    for i in list {
        let n = x.shape().get(runs.len()).copied().unwrap_or(0);
        match i {
            Index::At(p) => {
                let place = if p < 0 { p + n as isize } else { p };
                if !(0..n as isize).contains(&place) {
                    return Err(Error::argument(format!(
                        "slice_assign: place {p} is out of range for axis {} of size {n}",
                        runs.len()
                    )));
                }
                runs.push(op::slice::Run { start: place as usize, len: 1, step: 1 });
            }
            Index::Range { start, stop, step } => {
                let run = op::slice::Range { start, stop, step }.resolve(n)?;
                seen.push(run.len);
                runs.push(run);
            }
            Index::NewAxis => seen.push(1),
            Index::Tensor(_) => {
                return Err(Error::argument(
                    "slice_assign: parts are named by places and ranges; for index tensors use scatter, for masks where",
                ));
            }
            Index::Ellipsis => unreachable!("spread wrote it out"),
        }
    }
    let part = Shape::new(&seen)?;
    let misfit =
        |_| Error::shape(format!("slice_assign: src {} does not broadcast to the part {part}", src.shape()));
    let src = elinvar_ops::value::broadcast(src, &part).map_err(misfit)?;
    let whole: Dims = runs.iter().map(|r| r.len).collect();
    op::slice_assign::runs(x, &runs, &op::reshape::to_shape(&src, &Shape::new(&whole)?)?)
}
