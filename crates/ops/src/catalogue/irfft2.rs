//! irfft2: the inverse of rfft2, from half a spectrum to real numbers.

use super::fourier::{Norm, lines};
use super::irfftn;
use crate::prelude::*;

/// [`irfftn()`] over two axes, by default the last two.
///
/// # Errors
/// Those of [`irfftn()`].
pub fn irfft2<V: Value>(x: &V, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Result<V> {
    autocast!("irfft2", x => irfft2(x, s, dim, norm));
    irfftn(x, s, Some(&dim), norm)
}

/// By name: operand x; attributes s, dim ([-2, -1]) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let s = a.maybe("s", Args::sizes)?;
    Ok(vec![irfft2(a.input("x")?, s.as_deref(), lines::two_axes(a)?, Norm::of(a)?)?])
}
