//! ifftn: the inverse discrete Fourier transform over several axes.

use super::fourier::{Direction, Norm, lines};
use crate::prelude::*;

/// The transforms of [`ifft`](fn@super::ifft) along the axes `dim`, one after the other, of the
/// complex numbers `x` [.., 2], pairs (re, im) along the last axis, which `dim` does not count.
///
/// `s`: the lengths, one for each axis. Without `dim`, the last axes, as many as `s` has, or all.
/// `norm`: the factor of the result.
///
/// # Errors
/// Those of [`ifft`](fn@super::ifft); `InvalidArgument` if an axis is named twice, or `s` and `dim`
/// do not match.
pub fn ifftn<V: Value>(x: &V, s: Option<&[usize]>, dim: Option<&[isize]>, norm: Norm) -> Result<V> {
    autocast!("ifftn", x => ifftn(x, s, dim, norm));
    let shape = lines::without_pairs("ifftn", x.shape())?;
    let axes = lines::axes_and_sizes("ifftn", &shape, s, dim)?;
    axes.iter().rev().try_fold(x.clone(), |x, &(axis, n)| {
        lines::complex("ifftn", &x, axis, n, norm, Direction::Inverse)
    })
}

/// By name: operand x; attributes s, dim and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (s, dim) = (a.maybe("s", Args::sizes)?, a.maybe("dim", Args::dims)?);
    Ok(vec![ifftn(a.input("x")?, s.as_deref(), dim.as_deref(), Norm::of(a)?)?])
}
