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
    /// A vector of the length of each.
    Lengths(&'a V),
    /// A vector of where each begins, and where the last ends.
    Offsets(&'a V),
}

impl<V: Value> Segments<'_, V> {
    /// The length of each of the segments of `n` slices.
    fn lengths(self, n: usize) -> Result<Vec<usize>> {
        let (Segments::Lengths(t) | Segments::Offsets(t)) = self;
        let wrong = || {
            Error::argument(format!(
                "segment_reduce: lengths must not be negative and must sum to {n}, the size of axis 0; offsets must \
                 ascend from 0 to it"
            ))
        };
        if t.shape().rank() != 1 {
            return Err(Error::shape(format!(
                "segment_reduce: lengths or offsets of shape {}; they must be a vector",
                t.shape()
            )));
        }
        recording::refuse("segment_reduce: reading lengths")?;
        let host = as_index("segment_reduce", t)?.array().to_host()?;
        let v = host.as_slice::<i64>()?;
        let all: Option<Vec<usize>> = match self {
            Segments::Lengths(_) => v.iter().map(|&n| usize::try_from(n).ok()).collect(),
            Segments::Offsets(_) if v.first().is_none_or(|&first| first != 0) => None,
            Segments::Offsets(_) => {
                v.windows(2).map(|w| usize::try_from(w[1].checked_sub(w[0])?).ok()).collect()
            }
        };
        let all = all.ok_or_else(wrong)?;
        let sum = all.iter().try_fold(0usize, |s, &n| s.checked_add(n));
        if sum == Some(n) { Ok(all) } else { Err(wrong()) }
    }
}

/// The reduction of each segment of the slices of axis 0 of `x`, a float tensor. An empty one gives
/// `initial`, or what the reduction has without elements: 0, 1, NaN for the mean, -inf, inf.
///
/// x: [n, ..]   y: [segments, ..]
///
/// # Errors
/// `ShapeMismatch` if x is a scalar or the lengths are no vector; `InvalidArgument` if the segments
/// are not the whole axis; `DTypeMismatch`; `DeviceMismatch`; `OutOfMemory`.
pub fn segment_reduce<V: Value>(
    x: &V,
    reduce: Reduce,
    segments: Segments<'_, V>,
    initial: Option<f64>,
) -> Result<V> {
    if x.shape().rank() == 0 || !x.dtype().is_float() {
        return Err(Error::shape(format!(
            "segment_reduce: shape {} of {}; it must have an axis and be of floats",
            x.shape(),
            x.dtype()
        )));
    }
    let lengths = segments.lengths(x.shape()[0])?;
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

/// By name: operands x, and lengths or offsets; attributes reduce (sum, mean, max, min or prod) and
/// initial (null: none).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let segments = match a.optional("offsets") {
        Some(offsets) => Segments::Offsets(offsets),
        None => Segments::Lengths(a.input("lengths")?),
    };
    let reduce = Reduce::parse(&a.op, a.str("reduce")?)?;
    Ok(vec![segment_reduce(a.input("x")?, reduce, segments, a.maybe("initial", Args::f64)?)?])
}
