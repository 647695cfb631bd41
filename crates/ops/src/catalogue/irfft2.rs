//! irfft2: the inverse of rfft2, from half a spectrum to real numbers.

use super::fourier::Norm;
use super::irfftn;
use crate::prelude::*;

/// [`irfftn`](super::irfftn) over two axes, by default the last two.
///
/// # Errors
/// Those of [`irfftn`](super::irfftn).
pub fn irfft2<V: Value>(x: &V, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Result<V> {
    irfftn(x, s, Some(&dim), norm)
}

/// By name: operand x; attributes s, dim ([-2, -1]) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let (s, dim) = (a.maybe("s", Args::sizes)?, a.maybe("dim", Args::dims)?);
    Ok(vec![irfftn(a.input("x")?, s.as_deref(), Some(dim.as_deref().unwrap_or(&[-2, -1])), Norm::of(a)?)?])
}
