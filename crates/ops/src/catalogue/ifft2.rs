//! ifft2: the inverse discrete Fourier transform over two axes.

use super::fourier::{Norm, lines};
use super::ifftn;
use crate::prelude::*;

/// [`ifftn()`] over two axes, by default the last two.
///
/// # Errors
/// Those of [`ifftn()`].
pub fn ifft2<V: Value>(x: &V, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Result<V> {
    autocast!("ifft2", x => ifft2(x, s, dim, norm));
    ifftn(x, s, Some(&dim), norm)
}

/// By name: operand x; attributes s, dim ([-2, -1]) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let s = a.maybe("s", Args::sizes)?;
    Ok(vec![ifft2(a.input("x")?, s.as_deref(), lines::two_axes(a)?, Norm::of(a)?)?])
}
