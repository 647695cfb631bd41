//! rfft2: the discrete Fourier transform of real numbers over two axes.

use super::fourier::{Norm, lines};
use super::rfftn;
use crate::prelude::*;

/// [`rfftn()`] over two axes, by default the last two.
///
/// # Errors
/// Those of [`rfftn()`].
pub fn rfft2<V: Value>(x: &V, s: Option<&[usize]>, dim: [isize; 2], norm: Norm) -> Result<V> {
    autocast!("rfft2", x => rfft2(x, s, dim, norm));
    rfftn(x, s, Some(&dim), norm)
}

/// By name: operand x; attributes s, dim ([-2, -1]) and norm (backward).
pub(super) fn call<V: Value>(a: &Args<V>) -> Result<Vec<V>> {
    let s = a.maybe("s", Args::sizes)?;
    Ok(vec![rfft2(a.input("x")?, s.as_deref(), lines::two_axes(a)?, Norm::of(a)?)?])
}
