//! fft2: the discrete Fourier transform over two axes.

use super::fourier::Norm;
use super::fftn;
use crate::prelude::*;

/// [`fftn`](super::fftn) over two axes, by default the last two.
///
/// # Errors
/// Those of [`fftn`](super::fftn).
pub fn fft2<V: Value>(x: &V, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Result<V> {
    fftn(x, s, Some(&dim), norm)
}

/// By name: operand x; attributes s, dim ([-2, -1]) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (s, dim) = (a.maybe("s", Args::sizes)?, a.maybe("dim", Args::dims)?);
    Ok(vec![fftn(a.input("x")?, s.as_deref(), Some(dim.as_deref().unwrap_or(&[-2, -1])), Norm::of(a)?)?])
}
