//! fft2: the discrete Fourier transform over two axes.

use super::fourier::{Norm, lines};
use super::fftn;
use crate::prelude::*;

/// [`fftn()`] over two axes, by default the last two.
///
/// # Errors
/// Those of [`fftn()`].
pub fn fft2<V: Value>(x: &V, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Result<V> {
    autocast!("fft2", x => fft2(x, s, dim, norm));
    fftn(x, s, Some(&dim), norm)
}

/// By name: operand x; attributes s, dim ([-2, -1]) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let s = a.maybe("s", Args::sizes)?;
    Ok(vec![fft2(a.input("x")?, s.as_deref(), lines::two_axes(a)?, Norm::of(a)?)?])
}
