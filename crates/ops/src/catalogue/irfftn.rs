//! irfftn: the inverse of rfftn, from half a spectrum to real numbers.

use super::fourier::{Direction, Norm, lines};
use crate::prelude::*;

/// The transforms of [`irfft`](fn@super::irfft) along the axes `dim`, one after the other, of the
/// complex numbers `x` [.., 2], pairs (re, im) along the last axis, which `dim` does not count. The
/// last axis named becomes real, and has 2 (m - 1) elements unless `s` says how many.
///
/// `s`: the lengths, one for each axis. Without `dim`, the last axes, as many as `s` has, or all.
/// `norm`: the factor of the result.
///
/// # Errors
/// Those of [`irfft`](fn@super::irfft); `InvalidArgument` if an axis is named twice, or `s` and
/// `dim` do not match.
pub fn irfftn<V: Value>(x: &V, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Result<V> {
    autocast!("irfftn", x => irfftn(x, s, dim, norm));
    let shape = lines::without_pairs("irfftn", x.shape())?;
    let axes = lines::axes_and_sizes("irfftn", &shape, s, dim)?;
    let ((last, n), others) = axes.split_last().expect("an axis at least");
    let n = lines::length_from_half("irfftn", shape[*last], *n)?;
    let half = others.iter().try_fold(x.clone(), |x, &(axis, n)| {
        lines::complex("irfftn", &x, axis, n, norm, Direction::Inverse)
    })?;
    lines::inverse_real("irfftn", &half, *last, Some(n), norm)
}

/// By name: operand x; attributes s, dim and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (s, dim) = (a.maybe("s", Args::sizes)?, a.maybe("dim", Args::dims)?);
    Ok(vec![irfftn(a.input("x")?, s.as_deref(), dim.as_deref(), Norm::of(a)?)?])
}
