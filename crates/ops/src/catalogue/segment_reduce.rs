//! segment_reduce: the slices of an axis reduced in segments that follow each other. The lengths
//! are read, so this synchronises with the device.

use super::div::div;
use super::gather::as_index;
use super::scatter_reduce::{self, Reduce};
use super::{index_select, reshape, view};
use crate::prelude::*;
use crate::recording;

/// Where segments are.
#[derive(Clone, Copy, Debug)]
pub enum Segments<'a, V> {
    /// The length of each: a vector, or one for each index of the axes before that of the segments.
    Lengths(&'a V),
    /// Where each begins, and where the last ends; likewise.
    Offsets(&'a V),
}

impl<V: Value> Segments<'_, V> {
    /// The length of each of the segments of `n` slices, for each index of the axes before; and
    /// their number.
    fn lengths(self, before: &[usize], n: usize) -> Result<(Vec<usize>, usize)> {
        let (Segments::Lengths(t) | Segments::Offsets(t)) = self;
        let wrong = || {
            Error::argument(format!(
                "segment_reduce: lengths must not be negative and must sum to {n}, the size of the axis; offsets must \
                 ascend from 0 to it"
            ))
        };
        let (Some((&each, leading)), true) = (t.shape().split_last(), t.shape().rank() == before.len() + 1) else {
            return Err(Error::shape(format!(
                "segment_reduce: lengths or offsets of shape {}; they must have the axis of the segments and the {} \
                 before it",
                t.shape(),
                before.len()
            )));
        };
        if leading != before {
            return Err(Error::shape(format!(
                "segment_reduce: lengths or offsets of shape {}; the first axes must be {before:?}, as in the operand",
                t.shape()
            )));
        }
        recording::refuse("segment_reduce: reading lengths")?;
        let host = as_index("segment_reduce", t)?.array().to_host()?;
        let v = host.as_slice::<i64>()?;
        let row = |v: &[i64]| -> Option<Vec<usize>> {
            let all: Vec<usize> = match self {
                Segments::Lengths(_) => v.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?,
                Segments::Offsets(_) if v.first() != Some(&0) => return None,
                Segments::Offsets(_) => {
                    v.windows(2).map(|w| usize::try_from(w[1].checked_sub(w[0])?).ok()).collect::<Option<_>>()?
                }
            };
            (all.iter().try_fold(0usize, |s, &n| s.checked_add(n)) == Some(n)).then_some(all)
        };
        let segments = match self {
            Segments::Lengths(_) => each,
            Segments::Offsets(_) => each.checked_sub(1).ok_or_else(wrong)?,
        };
        let mut all = Vec::new();
        if each == 0 && n > 0 && !before.contains(&0) {
            return Err(wrong());
        }
        for v in v.chunks(each.max(1)) {
            all.extend(row(v).ok_or_else(wrong)?);
        }
        Ok((all, segments))
    }
}

/// The reduction of each segment of the slices of `axis` of `x`, a float tensor. An empty one gives
/// `initial`, or what the reduction has without elements: 0, 1, NaN for the mean, -inf, inf.
///
/// x: [.., n, ..]   lengths: [.., segments], offsets: [.., segments + 1]   y: [.., segments, ..]
///
/// # Errors
/// `ShapeMismatch` if x is a scalar or the lengths have other axes before; `InvalidArgument` if the
/// segments are not the whole axis; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn segment_reduce<V: Value>(
    x: &V,
    reduce: Reduce,
    segments: Segments<'_, V>,
    axis: isize,
    initial: Option<f64>,
) -> Result<V> {
    if x.shape().rank() == 0 || !x.dtype().is_float() {
        return Err(Error::shape(format!(
            "segment_reduce: shape {} of {}; it must have an axis and be of floats",
            x.shape(),
            x.dtype()
        )));
    }
    let axis = x.shape().axis("segment_reduce", axis)?;
    let (before, after) = (&x.shape()[..axis], &x.shape()[axis + 1..]);
    let (lengths, count) = segments.lengths(before, x.shape()[axis])?;
    if axis > 0 {
        // Rows follow one another, and so do their segments.
        let flat = |n: usize| -> Result<Shape> {
            let mut dims = Dims::from_elem(n, 1);
            dims.extend_from_slice(after);
            Shape::new(&dims)
        };
        let rows: usize = before.iter().product();
        let x_flat = reshape::to_shape(x, &flat(rows * x.shape()[axis])?)?;
        return reshape::to_shape(
            &of_first(&x_flat, reduce, lengths, initial)?,
            &view::resized(x.shape(), axis, count)?,
        );
    }
    of_first(x, reduce, lengths, initial)
}

/// The same for segments of the first axis.
fn of_first<V: Value>(x: &V, reduce: Reduce, lengths: Vec<usize>, initial: Option<f64>) -> Result<V> {
    let identity = match reduce {
        Reduce::Sum | Reduce::Mean => 0.0,
        Reduce::Prod => 1.0,
        Reduce::Amax => f64::NEG_INFINITY,
        Reduce::Amin => f64::INFINITY,
    };
    let start = Scalar::Float(initial.unwrap_or(identity));
    let base = view::full(x, &view::resized(x.shape(), 0, lengths.len())?, start)?;
    let numbers = lengths.iter().enumerate().flat_map(|(i, &n)| std::iter::repeat_n(i as i64, n));
    let index: V = view::numbers(x, x.shape()[0], numbers)?;
    let reduced = |base: &V, x: &V, how: Reduce| {
        if x.shape().numel() == 0 {
            return Ok(base.clone());
        }
        let at = index_select::spread("segment_reduce", base.shape(), 0, &index)?;
        scatter_reduce::run("segment_reduce", [base, &at, x], 0, how, initial.is_some())
    };
    if reduce != Reduce::Mean {
        return reduced(&base, x, reduce);
    }
    widen([&base, x], |[base, x]| {
        // A mean of nothing is 0 / 0, unless there is an initial value.
        let least = usize::from(initial.is_some());
        let counts = lengths.iter().map(|&n| n.max(least) as f64).collect();
        let counts = Array::from_f64s(x.device(), counts, &[lengths.len()], x.dtype())?;
        let mut column = Dims::from_elem(1, x.shape().rank());
        column[0] = lengths.len();
        let counts = reshape::to_shape(&V::from_array(counts), &Shape::new(&column)?)?;
        div(&reduced(base, x, Reduce::Sum)?, &counts)
    })
}

/// By name: operands x, and lengths or offsets; attributes reduce (sum, mean, max, min or prod),
/// axis (absent: 0) and initial (null: none).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let segments = match a.optional("offsets") {
        Some(offsets) => Segments::Offsets(offsets),
        None => Segments::Lengths(a.input("lengths")?),
    };
    let reduce = Reduce::parse(&a.op, a.str("reduce")?)?;
    let axis = a.maybe("axis", Args::dim)?.unwrap_or(0);
    Ok(vec![segment_reduce(a.input("x")?, reduce, segments, axis, a.maybe("initial", Args::f64)?)?])
}
