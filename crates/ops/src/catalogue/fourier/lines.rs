//! Transforms along axes of a tensor: sizes, padding, and lines laid out for an op.

use super::complex::Dft;
use super::real::{InverseRealDft, RealDft};
use super::{Direction, Norm, check_float, check_pairs};
use crate::catalogue::pad::{Mode, pad};
use crate::catalogue::{narrow, permute, reshape};
use crate::prelude::*;

/// The axes of a transform over several, and the size of each, in the order in which they were
/// named. `rank`: without the axis of pairs.
///
/// # Errors
/// `InvalidArgument` if there is no such axis, one is named twice, none is left, the sizes are not
/// as many as the axes, or one is 0: before the first axis is transformed.
pub(in crate::catalogue) fn axes_and_sizes(
    op: &str,
    shape: &Shape,
    s: Option<&[usize]>,
    dims: Option<&[isize]>,
) -> Result<Vec<(usize, Option<usize>)>> {
    let rank = shape.rank();
    let axes = match (dims, s) {
        (Some(dims), _) => shape.axes(op, dims)?,
        (None, Some(s)) if s.len() <= rank => (rank - s.len()..rank).collect(),
        (None, Some(s)) => {
            return Err(Error::argument(format!("{op}: {} sizes for shape {shape}", s.len())));
        }
        (None, None) => (0..rank).collect(),
    };
    if axes.is_empty() {
        return Err(Error::argument(format!("{op}: no axis is named; there must be one at least")));
    }
    let all: Vec<(usize, Option<usize>)> = match s {
        Some(s) if s.len() != axes.len() => {
            return Err(Error::argument(format!(
                "{op}: {} sizes for {} axes; there must be one for each",
                s.len(),
                axes.len()
            )));
        }
        Some(s) => axes.iter().zip(s).map(|(&a, &n)| (a, Some(n))).collect(),
        None => axes.iter().map(|&a| (a, None)).collect(),
    };
    all.iter().try_for_each(|&(axis, n)| length(op, shape[axis], n).map(drop))?;
    Ok(all)
}

/// The length of a transform along an axis of `now` elements, which is that without `n`.
fn length(op: &str, now: usize, n: Option<usize>) -> Result<usize> {
    match n.unwrap_or(now) {
        0 => Err(Error::argument(format!("{op}: a transform of 0 elements, along an axis of {now}"))),
        n => Ok(n),
    }
}

/// The length of a transform back to real numbers of half a spectrum of `now` elements: `n`, or
/// twice as many less 2.
///
/// # Errors
/// `InvalidArgument` if it is 0.
pub(in crate::catalogue) fn length_from_half(op: &str, now: usize, n: Option<usize>) -> Result<usize> {
    match n.unwrap_or(2 * now.saturating_sub(1)) {
        0 => Err(Error::argument(format!(
            "{op}: a transform of 0 elements; of an axis of {now} elements name n"
        ))),
        n => Ok(n),
    }
}

/// The attribute dim of a transform over two axes, by default the last two.
pub(in crate::catalogue) fn two_axes<V: Value>(a: &Args<V>) -> Result<[isize; 2]> {
    match a.maybe("dim", Args::dims)?.as_deref() {
        None => Ok([-2, -1]),
        Some(&[first, second]) => Ok([first, second]),
        Some(other) => Err(Error::argument(format!("{}: axes {other:?}; there must be two", a.op))),
    }
}

/// The shape without the axis of pairs.
pub(in crate::catalogue) fn without_pairs(op: &str, shape: &Shape) -> Result<Shape> {
    match &shape[..] {
        [rest @ .., 2] if !rest.is_empty() => Shape::new(rest),
        _ => Err(Error::shape(format!(
            "{op}: operand {shape} is not [.., n, 2]; complex numbers are pairs (re, im) along the last axis"
        ))),
    }
}

/// `x` cut, or filled with zeros, to `n` elements along an axis.
fn resized<V: Value>(op: &str, x: &V, axis: usize, n: usize) -> Result<V> {
    let now = x.shape()[axis];
    if n <= now {
        return if n == now { Ok(x.clone()) } else { narrow(x, axis as isize, 0, n) };
    }
    let mut amounts = vec![0; 2 * (x.shape().rank() - axis)];
    *amounts.last_mut().expect("an axis") = isize::try_from(n - now).map_err(|_| {
        Error::argument(format!("{op}: a transform of {n} elements; that is more than memory can hold"))
    })?;
    pad(x, &amounts, Mode::Constant(Scalar::Int(0)))
}

/// Runs `f` on `x` as [before, after, n] (or [before, after, n, 2] with `pairs`), with `axis` as n
/// and the axes before and after it as one each; the result, which has pairs if `gives`, has the
/// axes of x again.
fn along<V: Value>(
    x: &V,
    axis: usize,
    pairs: bool,
    gives: bool,
    f: impl FnOnce(&V) -> Result<V>,
) -> Result<V> {
    let rank = x.shape().rank() - usize::from(pairs);
    let sizes = |axes: std::ops::Range<usize>| axes.map(|a| x.shape()[a]).product::<usize>();
    let (before, after) = (sizes(0..axis), sizes(axis + 1..rank));
    // The last axes are n and what is after it, one or the other first.
    let exchanged = |v: &V, [rows, columns]: [usize; 2], pairs: bool| {
        let (shape, order) = ([before, rows, columns, 2], [0, 2, 1, 3]);
        let axes = if pairs { 4 } else { 3 };
        permute(&reshape::to_shape(v, &Shape::new(&shape[..axes])?)?, &order[..axes])
    };
    let y = f(&exchanged(x, [x.shape()[axis], after], pairs)?)?;
    let n = y.shape()[2];
    let mut dims: Dims = x.shape()[..rank].iter().copied().collect();
    dims[axis] = n;
    if gives {
        dims.push(2);
    }
    reshape::to_shape(&exchanged(&y, [after, n], gives)?, &Shape::new(&dims)?)
}

/// The complex transform of pairs `x` along `axis`, of length `n`, or of the axis' own.
pub(in crate::catalogue) fn complex<V: Value>(
    op: &'static str,
    x: &V,
    axis: usize,
    n: Option<usize>,
    norm: Norm,
    direction: Direction,
) -> Result<V> {
    check_pairs(op, x)?;
    let n = length(op, x.shape()[axis], n)?;
    let x = resized(op, x, axis, n)?;
    let dft = Dft { direction, scale: norm.factor(direction, n) };
    widen([&x], |[x]| along(x, axis, true, true, |x| V::apply(dft, &[x])))
}

/// The transform of real `x` along `axis` to half its spectrum.
pub(in crate::catalogue) fn real<V: Value>(
    op: &'static str,
    x: &V,
    axis: usize,
    n: Option<usize>,
    norm: Norm,
) -> Result<V> {
    check_float(op, x)?;
    if x.shape().rank() == 0 {
        return Err(Error::shape(format!("{op}: a scalar has no axis to transform")));
    }
    let n = length(op, x.shape()[axis], n)?;
    let x = resized(op, x, axis, n)?;
    let dft = RealDft { scale: norm.factor(Direction::Forward, n) };
    widen([&x], |[x]| along(x, axis, false, true, |x| V::apply(dft, &[x])))
}

/// The real numbers of which `x` is half the spectrum along `axis`: `n` of them, or twice the
/// axis' size less 2.
pub(in crate::catalogue) fn inverse_real<V: Value>(
    op: &'static str,
    x: &V,
    axis: usize,
    n: Option<usize>,
    norm: Norm,
) -> Result<V> {
    check_pairs(op, x)?;
    let n = length_from_half(op, x.shape()[axis], n)?;
    let x = resized(op, x, axis, n / 2 + 1)?;
    let dft = InverseRealDft { n, scale: norm.factor(Direction::Inverse, n) };
    widen([&x], |[x]| along(x, axis, true, false, |x| V::apply(dft, &[x])))
}
