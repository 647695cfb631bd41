//! fftn: the discrete Fourier transform over several axes.

use super::fourier::{Direction, Norm, lines};
use crate::prelude::*;

/// The transforms of [`fft`](fn@super::fft) along the axes `dim`, one after the other, of the
/// complex numbers `x` [.., 2], pairs (re, im) along the last axis, which `dim` does not count.
///
/// `s`: the lengths, one for each axis. Without `dim`, the last axes, as many as `s` has, or all.
/// `norm`: the factor of the result.
///
/// # Errors
/// Those of [`fft`](fn@super::fft); `InvalidArgument` if an axis is named twice, or `s` and `dim`
/// do not match.
pub fn fftn<V: Value>(x: &V, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Result<V> {
    autocast!("fftn", x => fftn(x, s, dim, norm));
    let shape = lines::without_pairs("fftn", x.shape())?;
    let axes = lines::axes_and_sizes("fftn", &shape, s, dim)?;
    axes.iter().rev().try_fold(x.clone(), |x, &(axis, n)| {
        lines::complex("fftn", &x, axis, n, norm, Direction::Forward)
    })
}

/// By name: operand x; attributes s, dim and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (s, dim) = (a.maybe("s", Args::sizes)?, a.maybe("dim", Args::dims)?);
    Ok(vec![fftn(a.input("x")?, s.as_deref(), dim.as_deref(), Norm::of(a)?)?])
}
