//! rfftn: the discrete Fourier transform of real numbers over several axes.

use super::fourier::{Direction, Norm, lines};
use crate::prelude::*;

/// The transforms of [`rfft`](fn@super::rfft) along the axes `dim`, one after the other, of the
/// real numbers `x`. Of the last axis named, the first n / 2 + 1 elements are given.
///
/// `s`: the lengths, one for each axis. Without `dim`, the last axes, as many as `s` has, or all.
/// `norm`: the factor of the result.
///
/// # Errors
/// Those of [`rfft`](fn@super::rfft); `InvalidArgument` if an axis is named twice, or `s` and `dim`
/// do not match.
pub fn rfftn<V: Value>(x: &V, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Result<V> {
    autocast!("rfftn", x => rfftn(x, s, dim, norm));
    let axes = lines::axes_and_sizes("rfftn", x.shape(), s, dim)?;
    let ((last, n), others) = axes.split_last().expect("an axis at least");
    let half = lines::real("rfftn", x, *last, *n, norm)?;
    others.iter().rev().try_fold(half, |x, &(axis, n)| {
        lines::complex("rfftn", &x, axis, n, norm, Direction::Forward)
    })
}

/// By name: operand x; attributes s, dim and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (s, dim) = (a.maybe("s", Args::sizes)?, a.maybe("dim", Args::dims)?);
    Ok(vec![rfftn(a.input("x")?, s.as_deref(), dim.as_deref(), Norm::of(a)?)?])
}
